package shim

import (
	"context"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/agent/child"
	"github.com/bellows-ml/bellows/internal/userdb"
)

// What a start looks at of the paths that a job names, as its reasons begin.
const (
	workdirNeed = "workdir"
	envFileNeed = "env file"
	commandNeed = "command"
	ownerNeed   = "owner"
)

// IsNeed reports whether a start was refused for something that Needs looks at,
// by the reason that the shim gave.
func IsNeed(reason string) bool {
	return slices.ContainsFunc([]string{workdirNeed, envFileNeed, commandNeed, ownerNeed}, func(need string) bool {
		return strings.HasPrefix(reason, need+" ")
	})
}

// Needs looks at what a start needs of the paths that a job names and of the
// node's users: working directory, env file, program and owner. It looks as a
// start does, as the job's owner, and its error is the one that the start would
// give. It starts and writes nothing. Where another user is to look, runner runs the
// process for that.
func Needs(ctx context.Context, o Order, runner *child.Runner) error {
	id, err := identifyOwner(ctx, o.Owner, userdb.Find)
	if err != nil {
		return err
	}
	_, err = look{Order: o, PathsOnly: true, waiting: func(string) {}, runner: runner}.as(ctx, id)
	return err
}
