package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// overGrace is how long the nodes have to hand over the end of a generation's
	// logs once it is over; a frozen node would never finish.
	overGrace = 3 * time.Second
	// mergeBuffer is how many lines wait for a slow reader before the nodes wait too.
	mergeBuffer = 256
)

// handleLogs writes a job's log lines, merged over its nodes.
func (s *Server) handleLogs(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	q, err := parseLogQuery(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	status, _, err := s.job(r.PathValue("job"), who)
	if err == nil {
		err = s.mayReadLogs(cluster.JobID(status.ID), who)
	}
	if err == nil && q.Generation != 0 && uint64(q.Generation) > status.Generation {
		err = fault(NotFound, "generation %d of job %s: it has had %d so far", q.Generation, status.ID, status.Generation)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out := newLines(w)
	if out.flush() != nil {
		return
	}
	merge := merger{server: s, job: cluster.JobID(status.ID), query: q, who: who}
	// An error means that the caller has gone, or that this agent ends.
	if merge.run(r.Context(), out.line) == nil {
		_ = out.line(LogLine{End: true})
	}
}

// merger brings together what a job's workers wrote, generation by generation.
type merger struct {
	server *Server
	job    cluster.JobID
	query  LogQuery
	who    cluster.Owner
}

func (m merger) run(ctx context.Context, emit func(LogLine) error) error {
	if m.query.Generation != 0 {
		return m.generation(ctx, m.query.Generation, emit)
	}
	for done := cluster.Generation(0); ; {
		g, ended, changed := m.next(done)
		switch {
		case g != 0:
			if err := m.generation(ctx, g, emit); err != nil {
				return err
			}
			done = g
		case ended || !m.query.Follow:
			return nil
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// next returns the first planned generation after done, 0 if there is none yet.
func (m merger) next(done cluster.Generation) (g cluster.Generation, ended bool, changed <-chan struct{}) {
	changed, err := m.server.view.read(func(mirror *record.Mirror) {
		v := mirror.Job(m.job)
		for _, x := range slices.Sorted(maps.Keys(v.Generations)) {
			if x > done && v.Generations[x].Plan.Exists() {
				g = x
				return
			}
		}
		ended = v.Spec.Exists() && v.State.Value.Phase.Terminal()
	})
	return g, ended || err != nil, changed
}

// part is one member's share of a generation's logs.
type part struct {
	member cluster.Member
	api    string // where its agent answers; empty = it is not in the cluster
}

func (m merger) parts(g cluster.Generation) (parts []part) {
	// A view that was never read has no jobs, and we were not asked about one.
	_, _ = m.server.view.read(func(mirror *record.Mirror) {
		for _, member := range mirror.Job(m.job).Generation(g).Plan.Value.World.Members {
			if m.query.Rank != nil && !slices.Contains(member.Ranks(), *m.query.Rank) {
				continue
			}
			parts = append(parts, part{member, mirror.Node(member.Node).Alive.Value.API})
		}
	})
	return parts
}

// generation emits one generation's lines: while it runs as they come, afterwards member by member.
func (m merger) generation(ctx context.Context, g cluster.Generation, emit func(LogLine) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	merged := make(chan LogLine, mergeBuffer)
	send := func(line LogLine) error {
		select {
		case merged <- line:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	follow := m.query.Follow && !m.over(g)
	var readers, watcher sync.WaitGroup
	if follow {
		watcher.Go(func() { m.cancelWhenOver(ctx, g, cancel) })
	}
	parts := m.parts(g)
	readers.Go(func() {
		for _, p := range parts {
			if !follow {
				m.read(ctx, p, LogQuery{Rank: m.query.Rank, Generation: g}, send)
				continue
			}
			readers.Go(func() { m.read(ctx, p, LogQuery{Rank: m.query.Rank, Generation: g, Follow: true}, send) })
		}
	})
	watcher.Go(func() { readers.Wait(); close(merged) })
	var err error
	for line := range merged {
		if err == nil {
			if err = emit(line); err != nil {
				cancel()
			}
		}
	}
	cancel()
	watcher.Wait()
	return err
}

// read reads one member's part, and says so in the stream if that cannot be had.
func (m merger) read(ctx context.Context, p part, q LogQuery, send func(LogLine) error) {
	var err error
	switch {
	case p.member.Node == m.server.cfg.Node:
		err = m.server.localLogs(ctx, m.job, q, send)
	case p.api == "":
		err = fmt.Errorf("the node is not in the cluster now")
	default:
		err = m.server.nodeLogs(ctx, p, nodeLogQuery{m.job, q, m.who}, send)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	last := p.member.FirstRank + p.member.Processes() - 1
	// If the reader has gone there is nobody to tell.
	_ = send(LogLine{
		Node: string(p.member.Node), Rank: -1, Generation: uint64(q.Generation),
		Notice: fmt.Sprintf("node %s: what ranks %d to %d wrote in generation %d is missing here, in part or whole: %s",
			p.member.Node, p.member.FirstRank, last, q.Generation, strings.TrimSpace(err.Error())),
	})
}

func (m merger) over(g cluster.Generation) (over bool) {
	_, err := m.server.view.read(func(mirror *record.Mirror) { over = !running(mirror.Job(m.job), g) })
	return err == nil && over
}

// cancelWhenOver waits until the generation has ended, gives the nodes a little longer, and ends the reading.
func (m merger) cancelWhenOver(ctx context.Context, g cluster.Generation, cancel func()) {
	for over := false; !over; {
		changed, err := m.server.view.read(func(mirror *record.Mirror) { over = !running(mirror.Job(m.job), g) })
		if err == nil && over {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	select {
	case <-time.After(overGrace):
		cancel()
	case <-ctx.Done():
	}
}
