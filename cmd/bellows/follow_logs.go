package main

import (
	"context"
	"errors"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

const (
	// agentPatience is how long following waits for an agent that went away:
	// a restart takes a second, an upgrade a few.
	agentPatience = time.Minute
	agentRetry    = 500 * time.Millisecond
)

// again repeats a call while the agent does not answer, until it has been away for
// too long: since the end of the last call in which something was heard. One that has
// been heard in is repeated, too, where the agent has no connection left: after its
// restart all who follow something come back at once.
func again(ctx context.Context, call func(heard func()) error) error {
	last, begun := time.Now(), false
	for {
		answered := false
		err := call(func() { answered = true })
		if answered {
			last, begun = time.Now(), true
		}
		away := errors.Is(err, api.ErrNoAgent) || api.CodeOf(err) == api.Unavailable || begun && api.CodeOf(err) == api.Limited
		if !away || ctx.Err() != nil || time.Since(last) > agentPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(agentRetry):
		}
	}
}

// followLogs hands each line to f once, across restarts of the agent: a reading
// that was cut off is repeated from where the last line of each rank ended.
func followLogs(ctx context.Context, client *api.Client, job string, q api.LogQuery, f func(api.LogLine) error) error {
	q.Follow = true
	return again(ctx, func(heard func()) error {
		return client.Logs(ctx, job, q, func(line api.LogLine) error {
			heard()
			if line.After != nil || line.Begin {
				q = after(q, line)
			}
			if line.Begin {
				return nil
			}
			return f(line)
		})
	})
}

// after is the query that goes on after a line.
func after(q api.LogQuery, line api.LogLine) api.LogQuery {
	if g := cluster.Generation(line.Generation); q.From != g {
		if q.From != 0 {
			q.Tail = nil // it was of the first one
		}
		q.From, q.After = g, map[int]api.Position{}
	}
	switch {
	case line.After != nil:
		q.After[line.Rank] = *line.After
	case line.Generation == 0: // the reading began before the first generation
		q.Tail = nil
	}
	return q
}
