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
	var in, out, complaint bytes.Buffer
	if err := json.NewEncoder(&in).Encode(task); err != nil {
		return dirblob.Answer{}, fmt.Errorf("encode checkpoint task: %w", err)
	}
	child := exec.CommandContext(ctx, n.cfg.Exe, "internal", "digest") //nolint:gosec // our own program
	child.Dir = "/"
	child.Env = []string{"PATH=" + os.Getenv("PATH")}
	child.Stdin, child.Stdout, child.Stderr = &in, &out, &complaint
	child.SysProcAttr = &syscall.SysProcAttr{Credential: credential(owner)}
	if err := child.Run(); err != nil {
		return dirblob.Answer{}, fmt.Errorf("work on checkpoints as %s: %w: %s", owner.User, err, strings.TrimSpace(complaint.String()))
	}
	return dirblob.ReadAnswer(&out)
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
