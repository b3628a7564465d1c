package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
)

// do does a piece of work on a job's checkpoints with its owner's rights: in a
// child process of that user where the agent is another one.
func (n *node) do(ctx context.Context, r *run, task dirblob.Task, bound time.Duration) (dirblob.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	owner := r.order.Owner
	if uint64(owner.UID) == uint64(os.Geteuid()) { //nolint:gosec // a uid is not negative
		return task.Do(ctx)
	}
	var in bytes.Buffer
	if err := json.NewEncoder(&in).Encode(task); err != nil {
		return dirblob.Answer{}, fmt.Errorf("encode checkpoint task: %w", err)
	}
	child := exec.CommandContext(ctx, n.cfg.Exe, "internal", "digest") //nolint:gosec // our own program
	child.Dir = "/"
	child.Env = []string{"PATH=" + os.Getenv("PATH")}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: credential(owner)}
	child.Stdin = &in
	answer, err := hear(child)
	if err != nil {
		return dirblob.Answer{}, fmt.Errorf("work on checkpoints as %s: %w", owner.User, err)
	}
	return dirblob.ReadAnswer(answer)
}

const (
	// maxAnswer bounds what a child answers: a manifest's files, and some words.
	maxAnswer    = 2 * checkpoint.MaxManifestBytes
	maxComplaint = 16 << 10
	// hangUp is how long a child that has ended may leave its output open.
	hangUp = 5 * time.Second
)

// hear runs a child to its end and returns what it said. It is a process of a
// user's, who may do with it what he likes: also have it say more than there is
// memory for, or give its output to a process that does not end.
func hear(child *exec.Cmd) (*bytes.Buffer, error) {
	answer, complaint := &bounded{most: maxAnswer}, &bounded{most: maxComplaint}
	child.Stdout, child.Stderr, child.WaitDelay = answer, complaint, hangUp
	if err := child.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.text.String()))
	}
	return &answer.text, nil
}

// bounded takes so many bytes. The buffer is not embedded: it would be read into past Write.
type bounded struct {
	text bytes.Buffer
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	fits := min(len(p), b.most-b.text.Len())
	b.text.Write(p[:fits])
	if fits < len(p) {
		return fits, fmt.Errorf("it says more than %d bytes", b.most)
	}
	return fits, nil
}

// credential is a user with its groups, as far as this node knows them. The
// shim has refused users that the node maps differently.
func credential(o cluster.Owner) *syscall.Credential {
	c := &syscall.Credential{Uid: o.UID, Gid: o.GID, Groups: []uint32{o.GID}}
	u, err := user.Lookup(o.User)
	if err != nil || u.Uid != strconv.FormatUint(uint64(o.UID), 10) {
		return c
	}
	ids, err := u.GroupIds()
	if err != nil {
		return c
	}
	for _, id := range ids {
		if gid, err := strconv.ParseUint(id, 10, 32); err == nil && uint32(gid) != o.GID {
			c.Groups = append(c.Groups, uint32(gid))
		}
	}
	return c
}
