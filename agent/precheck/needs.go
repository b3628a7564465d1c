package precheck

import (
	"context"
	"errors"

	"github.com/bellows-ml/bellows/agent/child"
	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/record"
)

// missing marks what Needs looks at: it may be there later.
type missing struct{ error }

func (m missing) Unwrap() error { return m.error }

// Owner finds out whom workers run as on this node.
func Owner(ctx context.Context, o cluster.Owner, find owner.Finder) (owner.Identity, error) {
	id, err := owner.Identify(ctx, o, find)
	if err != nil {
		return owner.Identity{}, missing{err}
	}
	return id, nil
}

// Needs looks at what a start needs of the paths that a job names and of the
// node's users: working directory, env file, program and owner. It looks as a
// start does, as the job's owner, and its error is the one that the start would
// give. It starts and writes nothing. Where another user is to look, runner runs the
// process for that.
func Needs(ctx context.Context, o run.Order, runner *child.Runner) error {
	id, err := Owner(ctx, o.Owner, userdb.Find)
	if err != nil {
		return err
	}
	_, err = Question{Order: o, PathsOnly: true, Waiting: func(string) {}, runner: runner}.Ask(ctx, id)
	return err
}

// Failed is a failure by an error, which is no worker's.
func Failed(err error) *record.Failed {
	if err == nil {
		return nil
	}
	_, isMissing := errors.AsType[missing](err)
	kind := FailureOf(err)
	return &record.Failed{Kind: kind, Reason: err.Error(), Missing: isMissing && kind == record.NodeRefused}
}
