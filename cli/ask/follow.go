package ask

import (
	"context"
	"errors"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// Events hands each event that a query asks for to f; if it follows, across restarts of the agent.
func Events(ctx context.Context, client *api.Client, q api.EventQuery, f func(api.Event) error) error {
	return Again(ctx, func(heard func()) error {
		return client.Events(ctx, q, f, func(revision int64) {
			heard()
			q.After = revision
		})
	})
}

const (
	// agentPatience is how long following waits for an agent that went away:
	// a restart takes a second, an upgrade a few.
	agentPatience = time.Minute
	agentRetry    = 500 * time.Millisecond
)

// Again repeats a call while the agent does not answer, until it has been away for
// too long: since the end of the last call in which something was heard. One that has
// been heard in is repeated, too, where the agent has no connection left: after its
// restart all who follow something come back at once.
func Again(ctx context.Context, call func(heard func()) error) error {
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

// FollowLogs hands each line to f once, across restarts of the agent: a reading
// that was cut off is repeated from where the last line of each rank ended.
func FollowLogs(ctx context.Context, client *api.Client, job string, q api.LogQuery, f func(api.LogLine) error) error {
	q.Follow = true
	return Again(ctx, func(heard func()) error {
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

// Logs reads a job's lines; while following, across restarts of the agent.
func Logs(ctx context.Context, client *api.Client, ref string, q api.LogQuery, f func(api.LogLine) error) error {
	if !q.Follow {
		return client.Logs(ctx, ref, q, f)
	}
	status, err := client.Job(ctx, ref) // a name may come to mean another job
	if err != nil {
		return err
	}
	return FollowLogs(ctx, client, status.ID, q, f)
}
