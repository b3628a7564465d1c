// Command bellows is the whole of Bellows in one binary: what people type, the
// agent of a node, the coordinator, and a small cluster for one machine.
//
// It promises that stdout is the result and stderr the messages, that every
// error says what to do about it, and an exit status that scripts can use: 0 ok,
// 1 failed, 2 wrong usage or settings, 3 nothing answers, 4 a deadline is not promised, 5 a job of a dry run is too large
// (api.RefusedStatus); `run` passes the job's own on.
// Here lie flags, files and wiring, one file a command; what is decided is
// decided in the packages that it ties together.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/service"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/store"
)

// Exit statuses. `run` besides passes the job's own through.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitNoAnswer = 3
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:]))
}

// execute runs one command line and returns its exit status.
func execute(ctx context.Context, args []string) int {
	root, started := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[fault.Exit](err); ok {
		return int(status)
	}
	service.PrintError(os.Stderr, output.Plain(err.Error()))
	switch {
	case !*started, fault.IsUsage(err), errors.Is(err, store.ErrUnfit), api.CodeOf(err) == api.Invalid:
		return exitUsage
	case errors.Is(err, api.ErrNoAgent), errors.Is(err, store.ErrUnreachable), api.CodeOf(err) == api.Unavailable:
		return exitNoAnswer
	}
	return exitFailed
}
