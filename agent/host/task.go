package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/agent/child"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
)

// tasks does work on jobs' checkpoints, with the rights of their owners. Any
// goroutine may call it.
type tasks struct{ *shared }

// do does a piece of work on a job's checkpoints with its owner's rights: in a
// child process of that user where the agent is another one.
func (ts *tasks) do(ctx context.Context, r *run, task dirblob.Task, bound time.Duration) (dirblob.Answer, error) {
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
	as, err := shim.Credential(ctx, owner)
	if err != nil { // a directory service that does not answer is to cost no save: what is the owner's needs no group
		log := ts.logger(r.jg)
		log.Warn().Err(err).Msg("cannot ask for the owner's groups, going without")
		as = &syscall.Credential{Uid: owner.UID, Gid: noGroup}
	}
	var answer bytes.Buffer
	err = child.Run(ctx, child.Task{
		Program: ts.cfg.Exe, Args: []string{"internal", "digest"}, As: as, In: in.Bytes(), Out: &answer, Most: maxAnswer,
	})
	if err != nil {
		return dirblob.Answer{}, fmt.Errorf("work on checkpoints as %s: %w", owner.User, err)
	}
	return dirblob.ReadAnswer(&answer)
}

// noGroup is the group of those that have none.
const noGroup = 65534

// maxAnswer bounds what a child answers: a manifest's files, and some words.
const maxAnswer = 2 * checkpoint.MaxManifestBytes
