package saves

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/agent/child"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
)

// Tasks does work on jobs' checkpoints, with the rights of their owners. Any
// goroutine may call it.
type Tasks struct {
	*loop.Loop
	exe      string // the program whose `internal digest` command is run
	children children
	ask      func(context.Context, cluster.Owner) (*syscall.Credential, error) // nil = owner.Credential
}

// persevere does work that a save depends on: while the node's user database does not
// answer, it tries again for as long as a task may take.
func (ts *Tasks) persevere(ctx context.Context, in Folder, task dirblob.Task) (dirblob.Answer, error) {
	begun := time.Now()
	for {
		answer, err := ts.Do(ctx, in, task, taskBound)
		if !errors.Is(err, userdb.ErrNoAnswer) || time.Since(begun) >= taskBound || !loop.Rest(ctx, loop.RetryLast) {
			return answer, err
		}
		log := ts.Logger(in.Of)
		log.Warn().Err(err).Msg("cannot work on a checkpoint yet, trying again")
	}
}

// Do does a piece of work on a job's checkpoints with its owner's rights: in a
// child process of that user where the agent is another one. Its error wraps
// userdb.ErrNoAnswer if it cannot learn the owner's groups now.
func (ts *Tasks) Do(ctx context.Context, in Folder, task dirblob.Task, bound time.Duration) (dirblob.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	of := in.Owner
	if uint64(of.UID) == uint64(os.Geteuid()) { //nolint:gosec // a uid is not negative
		return task.Do(ctx)
	}
	var asked bytes.Buffer
	if err := json.NewEncoder(&asked).Encode(task); err != nil {
		return dirblob.Answer{}, fmt.Errorf("encode checkpoint task: %w", err)
	}
	ask := ts.ask
	if ask == nil {
		ask = owner.Credential
	}
	as, err := ask(ctx, of)
	switch {
	case errors.Is(err, userdb.ErrNoAnswer) || err != nil && ctx.Err() != nil: // what it can read may depend on a group
		return dirblob.Answer{}, fmt.Errorf("work on checkpoints as %s: %w", of.User, err)
	case err != nil: // a user who is not known here any more loses no save: what is the owner's needs no group
		log := ts.Logger(in.Of)
		log.Warn().Err(err).Msg("cannot ask for the owner's groups, going without")
		as = &syscall.Credential{Uid: of.UID, Gid: noGroup}
	}
	var answer bytes.Buffer
	runner, done := ts.children.of(in.Of.Job, task.Kind())
	defer done()
	err = runner.Run(ctx, child.Task{
		Program: ts.exe, Args: []string{"internal", "digest"}, As: as, In: asked.Bytes(), Out: &answer, Most: maxAnswer,
	})
	if err != nil {
		return dirblob.Answer{}, fmt.Errorf("work on checkpoints as %s: %w", of.User, err)
	}
	return dirblob.ReadAnswer(&answer)
}

// Runner is what runs a job's other processes of a kind, which may be left behind; done ends its use.
func (ts *Tasks) Runner(job cluster.JobID, kind string) (runner *child.Runner, done func()) {
	return ts.children.of(job, kind)
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

func (r *childRunner) idle() bool { return r.users == 0 && r.Left() == 0 }

// of returns the runner of a job's tasks of one kind. It is kept until it has neither
// a user nor a child.
func (c *children) of(job cluster.JobID, kind string) (runner *child.Runner, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.runners, func(_ childKey, r *childRunner) bool { return r.idle() }) // a child that was left has ended
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
		if r.users--; r.idle() {
			delete(c.runners, key)
		}
	}
}

// noGroup is the group of those that have none.
const noGroup = 65534

// maxAnswer bounds what a child answers: a manifest's files, and some words.
const maxAnswer = 2 * checkpoint.MaxManifestBytes
