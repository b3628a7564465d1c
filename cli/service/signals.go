package service

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilTerminated ends a context with the first SIGTERM or SIGINT; a second one
// ends the process at once.
func UntilTerminated(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
