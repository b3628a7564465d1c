package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/agent/child"
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
	var answer bytes.Buffer
	err := child.Run(ctx, child.Task{
		Program: n.cfg.Exe, Args: []string{"internal", "digest"}, As: credential(owner), In: in.Bytes(), Out: &answer, Most: maxAnswer,
	})
	if err != nil {
		return dirblob.Answer{}, fmt.Errorf("work on checkpoints as %s: %w", owner.User, err)
	}
	return dirblob.ReadAnswer(&answer)
}

// maxAnswer bounds what a child answers: a manifest's files, and some words.
const maxAnswer = 2 * checkpoint.MaxManifestBytes

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
