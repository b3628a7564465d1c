package serve

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const (
	// overGrace is how long the nodes have to hand over the end of a generation's
	// logs once it is over; a frozen node would never finish.
	overGrace = 3 * time.Second
	// mergeBuffer is how many lines wait for a slow reader before the nodes wait too.
	mergeBuffer = 256
	// nodeRetry is how often a node whose agent went away is asked again while its
	// part is followed: a restart takes a second, an upgrade a few.
	nodeRetry = 500 * time.Millisecond
)

// jobLogs merges what a job's workers wrote on all its nodes.
type jobLogs struct {
	cfg    *Config
	view   *view
	local  *localLogs
	agents *api.Agents
}

// handleLogs writes a job's log lines, merged over its nodes.
func (j *jobLogs) handleLogs(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	q, err := api.ParseLogQuery(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	status, _, err := j.view.job(r.PathValue("job"), who)
	if err == nil {
		err = j.view.mayReadLogs(cluster.JobID(status.ID), who)
	}
	if err == nil && q.Generation != 0 && uint64(q.Generation) > status.Generation {
		err = api.Fault(api.NotFound, "generation %d of job %s: it has had %d so far", q.Generation, status.ID, status.Generation)
	}
	if err == nil && q.Rank != nil {
		err = j.knownRank(cluster.JobID(status.ID), q)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out := newLines(w)
	if out.flush() != nil {
		return
	}
	merge := merger{logs: j, job: cluster.JobID(status.ID), query: q, who: who}
	merge.tailed = merge.tailOf()
	// An error means that the caller has gone, or that this agent ends.
	if merge.run(r.Context(), out.line) == nil {
		_ = out.line(api.LogLine{End: true})
	}
}

// merger brings together what a job's workers wrote, generation by generation.
type merger struct {
	logs  *jobLogs
	job   cluster.JobID
	query api.LogQuery
	who   cluster.Owner
	// tailed is the generation for which the query's Tail counts, settled when the
	// reading begins: all of what later ones write is wanted. 0 = none yet.
	tailed cluster.Generation
}

func (m merger) tailOf() cluster.Generation {
	switch {
	case m.query.Generation != 0:
		return m.query.Generation
	case m.query.From != 0:
		return m.query.From
	}
	return m.newest()
}

func (m merger) run(ctx context.Context, emit func(api.LogLine) error) error {
	if m.query.Generation != 0 {
		return m.generation(ctx, m.query.Generation, emit)
	}
	done := max(m.query.From, 1) - 1
	if m.query.Tail != nil && m.query.From == 0 {
		done = max(m.tailed, 1) - 1
		if m.query.Follow { // a reader that is cut off before the first line must not take the tail of a later generation
			if err := emit(api.LogLine{Node: string(m.logs.cfg.Node), Rank: -1, Generation: uint64(m.tailed), Begin: true}); err != nil {
				return err
			}
		}
	}
	for {
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
	changed, err := m.logs.view.read(func(mirror *record.Mirror) {
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

// newest returns the newest generation, 0 if there is none yet.
func (m merger) newest() (g cluster.Generation) {
	// A view that was never read has no jobs, and we were not asked about one.
	_, _ = m.logs.view.read(func(mirror *record.Mirror) { g = mirror.Job(m.job).State.Value.Generation })
	return g
}

func (m merger) parts(g cluster.Generation) (parts []cluster.Member) {
	_, _ = m.logs.view.read(func(mirror *record.Mirror) { // as above
		for _, member := range mirror.Job(m.job).Generation(g).Plan.Value.World.Members {
			if m.query.Rank == nil || slices.Contains(member.Ranks(), *m.query.Rank) {
				parts = append(parts, member)
			}
		}
	})
	return parts
}

// partQuery is what a node is asked of generation g.
func (m merger) partQuery(g cluster.Generation, member cluster.Member, follow bool) api.LogQuery {
	q := api.LogQuery{Rank: m.query.Rank, Generation: g, Follow: follow, Since: m.query.Since, After: map[int]api.Position{}}
	if m.query.From == g || m.query.Generation == g {
		for _, rank := range member.Ranks() {
			if at, known := m.query.After[rank]; known {
				q.After[rank] = at
			}
		}
	}
	if m.tailed == g {
		q.Tail = m.query.Tail
	}
	return q
}

// generation emits one generation's lines: while it runs as they come, afterwards member by member.
func (m merger) generation(ctx context.Context, g cluster.Generation, emit func(api.LogLine) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reading, enough := context.WithCancel(ctx)
	defer enough()
	merged := make(chan api.LogLine, mergeBuffer)
	send := func(line api.LogLine) error {
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
		watcher.Go(func() { m.cancelWhenOver(reading, g, enough) })
	}
	parts := m.parts(g)
	readers.Go(func() {
		for _, member := range parts {
			q := m.partQuery(g, member, follow)
			if !follow {
				m.read(reading, member, q, send)
				continue
			}
			readers.Go(func() { m.follow(reading, member, q, send) })
		}
	})
	watcher.Go(func() { readers.Wait(); enough(); close(merged) })
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
func (m merger) read(ctx context.Context, member cluster.Member, q api.LogQuery, send func(api.LogLine) error) {
	if err := m.ask(ctx, member.Node, q, send); err != nil && ctx.Err() == nil {
		m.lost(member, q.Generation, err, send)
	}
}

// lost says that a member's part cannot be had.
func (m merger) lost(member cluster.Member, g cluster.Generation, err error, send func(api.LogLine) error) {
	m.notice(member, g, send, fmt.Sprintf("what %s wrote in generation %d is missing here, in part or whole: %s",
		ranksText(member), g, strings.TrimSpace(err.Error())))
}

// follow reads one member's part until its end. While the node's agent is away it
// is asked again, and goes on where it was; ctx ends when that has taken too long.
// An error that lasts is told once, and ends it.
func (m merger) follow(ctx context.Context, member cluster.Member, q api.LogQuery, send func(api.LogLine) error) {
	away := error(nil)
	for {
		err := m.ask(ctx, member.Node, q, func(line api.LogLine) error {
			if away = nil; line.After != nil {
				q.After[line.Rank] = *line.After
			}
			return send(line)
		})
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			m.notice(member, q.Generation, send, fmt.Sprintf("the last of what %s wrote in generation %d is missing here, if there is more: the node has not handed it over in time",
				ranksText(member), q.Generation))
			return
		case api.Lasts(err):
			m.lost(member, q.Generation, err, send)
			return
		case away == nil:
			answer := "does not answer"
			if api.CodeOf(err) == api.Limited {
				answer = "takes no further connection"
			}
			if send(api.LogLine{Node: string(member.Node), Rank: -1, Generation: uint64(q.Generation), Notice: fmt.Sprintf(
				"node %s: its agent %s; what %s wrote meanwhile comes once it does: %s",
				member.Node, answer, ranksText(member), strings.TrimSpace(err.Error()))}) != nil {
				return
			}
		}
		away = err
		select {
		case <-time.After(nodeRetry):
		case <-ctx.Done():
		}
	}
}

// ask reads from the node that was a member, at the address that it has now.
func (m merger) ask(ctx context.Context, node cluster.NodeID, q api.LogQuery, send func(api.LogLine) error) error {
	if node == m.logs.cfg.Node {
		if err := m.logs.local.read(ctx, m.job, q, send); err != nil {
			return api.Permanent(err) // there is no agent to wait for: files cannot be read
		}
		return nil
	}
	addr := ""
	if _, err := m.logs.view.read(func(mirror *record.Mirror) { addr = mirror.Node(node).Alive.Value.API }); err != nil {
		return err
	}
	if addr == "" {
		return fmt.Errorf("the node is not in the cluster now")
	}
	return m.logs.agents.Logs(ctx, api.Agent{Node: node, Addr: addr}, api.NodeLogQuery{Job: m.job, Query: q, Who: m.who}, send)
}

// notice says which lines are missing.
func (m merger) notice(member cluster.Member, g cluster.Generation, send func(api.LogLine) error, text string) {
	_ = send(api.LogLine{ // an error means that the reader has gone
		Node: string(member.Node), Rank: -1, Generation: uint64(g), Missing: true, Notice: fmt.Sprintf("node %s: %s", member.Node, text),
	})
}

func ranksText(m cluster.Member) string {
	if m.Processes() == 1 {
		return fmt.Sprintf("rank %d", m.FirstRank)
	}
	return fmt.Sprintf("ranks %d to %d", m.FirstRank, m.FirstRank+m.Processes()-1)
}

func (m merger) over(g cluster.Generation) (over bool) {
	_, err := m.logs.view.read(func(mirror *record.Mirror) { over = !running(mirror.Job(m.job), g) })
	return err == nil && over
}

// cancelWhenOver waits until the generation has ended, gives the nodes a little longer, and ends the reading.
func (m merger) cancelWhenOver(ctx context.Context, g cluster.Generation, cancel func()) {
	for over := false; !over; {
		changed, err := m.logs.view.read(func(mirror *record.Mirror) { over = !running(mirror.Job(m.job), g) })
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

// knownRank refuses a rank that the job, or the generation that is asked for, has
// never had. While following, one that it may yet come to have is waited for.
func (j *jobLogs) knownRank(job cluster.JobID, q api.LogQuery) error {
	had, most := 0, 0
	_, err := j.view.read(func(m *record.Mirror) {
		v := m.Job(job)
		most = v.Scaled().MaxWorkers
		for g, view := range v.Generations {
			if q.Generation == 0 || q.Generation == g {
				had = max(had, view.Plan.Value.World.Processes())
			}
		}
		for g, r := range v.Rescales { // also of generations that are kept no more
			if q.Generation == 0 || q.Generation == g {
				had = max(had, r.Value.To)
			}
		}
	})
	rank := *q.Rank
	switch {
	case err != nil || rank < had, q.Follow && q.Generation == 0 && rank < most:
		return err
	case q.Generation != 0:
		return api.Fault(api.NotFound, "rank %d of job %s: generation %d had ranks 0 to %d", rank, job, q.Generation, had-1)
	case had == 0:
		return api.Fault(api.NotFound, "rank %d of job %s: it has not had workers yet", rank, job)
	}
	return api.Fault(api.NotFound, "rank %d of job %s: it has had ranks 0 to %d so far", rank, job, had-1)
}
