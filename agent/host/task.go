package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/agent/child"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
)

// tasks does work on jobs' checkpoints, with the rights of their owners. Any
// goroutine may call it.
type tasks struct {
	*shared
	children children
}

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
	runner, done := ts.children.of(r.jg.Job, task.Kind())
	defer done()
	err = runner.Run(ctx, child.Task{
		Program: ts.cfg.Exe, Args: []string{"internal", "digest"}, As: as, In: in.Bytes(), Out: &answer, Most: maxAnswer,
	})
	if err != nil {
		return dirblob.Answer{}, fmt.Errorf("work on checkpoints as %s: %w", owner.User, err)
	}
	return dirblob.ReadAnswer(&answer)
}

// children are the runners of tasks, one for each job and kind: a child that does
// not end holds up no other job's tasks, and no other kind of its own's. The zero
// value is ready.
type children struct {
	mu      sync.Mutex
	runners map[childKey]*childRunner
}

type childKey struct {
	job  cluster.JobID
	kind string
}

type childRunner struct {
	child.Runner

	users int
}

// of returns the runner of a job's tasks of one kind. It is kept until it has neither
// a user nor a child.
func (c *children) of(job cluster.JobID, kind string) (runner *child.Runner, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := childKey{job, kind}
	r := c.runners[key]
	if r == nil {
		r = &childRunner{}
		if c.runners == nil {
			c.runners = map[childKey]*childRunner{}
		}
		c.runners[key] = r
	}
	r.users++
	return &r.Runner, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.users--; r.users == 0 && r.Left() == 0 {
			delete(c.runners, key)
		}
	}
}

// noGroup is the group of those that have none.
const noGroup = 65534

// maxAnswer bounds what a child answers: a manifest's files, and some words.
const maxAnswer = 2 * checkpoint.MaxManifestBytes
