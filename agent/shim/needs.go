package shim

import (
	"context"

	"github.com/bellows-ml/bellows/agent/child"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/internal/userdb"
)

// missing marks what Needs looks at: it may be there later.
type missing struct{ error }

func (m missing) Unwrap() error { return m.error }

// Needs looks at what a start needs of the paths that a job names and of the
// node's users: working directory, env file, program and owner. It looks as a
// start does, as the job's owner, and its error is the one that the start would
// give. It starts and writes nothing. Where another user is to look, runner runs the
// process for that.
func Needs(ctx context.Context, o run.Order, runner *child.Runner) error {
	id, err := identifyOwner(ctx, o.Owner, userdb.Find)
	if err != nil {
		return err
	}
	_, err = look{Order: o, PathsOnly: true, waiting: func(string) {}, runner: runner}.as(ctx, id)
	return err
}
