package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent/ranklog"
	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// pollEvery is how often followed logs are looked at: soon enough for a person,
// and cheap. (inotify would miss files on a network file system.)
const pollEvery = 150 * time.Millisecond

// localLogs reads what this node's workers wrote.
type localLogs struct {
	cfg  *Config
	view *view
}

// handleNodeLogs writes what this node's workers of one generation wrote.
func (l *localLogs) handleNodeLogs(w http.ResponseWriter, r *http.Request) {
	who, err := caller(r)
	if err != nil {
		writeError(w, err)
		return
	}
	q, err := api.ParseLogQuery(r.URL.Query())
	if err == nil && q.Generation == 0 {
		err = api.Fault(api.Invalid, "generation: a node's part of the logs belongs to one; name it")
	}
	job := cluster.JobID(r.URL.Query().Get("job"))
	if err == nil {
		err = l.view.mayReadLogs(job, who)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out := newLines(w)
	if out.flush() != nil { // send the header, so that the client knows that an answer follows
		return
	}
	// What goes wrong later can only be told within the stream.
	if err := l.read(r.Context(), job, q, out.line); err != nil {
		if r.Context().Err() != nil {
			return
		}
		_ = out.line(api.LogLine{Node: string(l.cfg.Node), Rank: -1, Generation: uint64(q.Generation), Notice: err.Error(), Missing: true})
	}
	_ = out.line(api.LogLine{End: true})
}

// localLogs hands the lines of this node's ranks to emit; without Follow rank by
// rank, with it as they come, until the node has nothing left of the generation.
func (l *localLogs) read(ctx context.Context, job cluster.JobID, q api.LogQuery, emit func(api.LogLine) error) error {
	p := nodePart{logs: l, job: job, query: q, emit: emit, folder: l.folder(job, q.Generation), open: map[int]*ranklog.Reader{}}
	defer func() {
		for _, log := range p.open {
			log.Close()
		}
	}()
	for {
		last := !q.Follow || l.ended(job, q.Generation)
		if err := p.begin(); err != nil {
			return err
		}
		if err := p.poll(last); err != nil || last {
			return err
		}
		p.following = true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// nodePart reads this node's part of a generation's logs.
type nodePart struct {
	logs      *localLogs
	job       cluster.JobID
	query     api.LogQuery
	emit      func(api.LogLine) error
	folder    string
	open      map[int]*ranklog.Reader
	following bool // what was there when the reading began has been read
}

// begin settles after what each rank that is new is read, also one that has
// written nothing yet, and says so before any line where Tail is part of that:
// by the time that a reading which was cut off goes on, the end is elsewhere.
func (p *nodePart) begin() error {
	ranks, err := ranklog.Ranks(p.folder)
	if err != nil {
		return err
	}
	_, _ = p.logs.view.read(func(m *record.Mirror) { // without a snapshot there are the files
		member, _, _ := m.Job(p.job).Generation(p.query.Generation).Plan.Value.World.Member(p.logs.cfg.Node)
		ranks = append(ranks, member.Ranks()...)
	})
	slices.Sort(ranks)
	for _, rank := range slices.Compact(ranks) {
		if p.open[rank] != nil || p.query.Rank != nil && *p.query.Rank != rank {
			continue
		}
		after, err := start(p.query, p.folder, rank, p.following)
		if err != nil {
			return err
		}
		p.open[rank] = ranklog.NewReader(ranklog.Path(p.folder, rank), after)
		if _, known := p.query.After[rank]; known || p.query.Tail == nil || !p.query.Follow {
			continue
		}
		if err := p.emit(api.LogLine{
			Node: string(p.logs.cfg.Node), Rank: rank, Generation: uint64(p.query.Generation), After: &after, Begin: true,
		}); err != nil {
			return err
		}
	}
	return nil
}

// poll hands over what the ranks have written since; last: and will not finish.
func (p *nodePart) poll(last bool) error {
	for _, rank := range slices.Sorted(maps.Keys(p.open)) {
		toLine := p.logs.lineOf(rank, p.query.Generation, p.following, p.emit)
		if err := p.open[rank].Poll(toLine); err != nil {
			return err
		}
		if last {
			if err := p.open[rank].Finish(toLine); err != nil {
				return err
			}
		}
	}
	return nil
}

// start says after what a rank's log is to be read; all of what comes while
// following is wanted, and of a rank that has written nothing yet there is no more.
func start(q api.LogQuery, folder string, rank int, following bool) (after api.Position, err error) {
	after, known := q.After[rank]
	switch {
	case known || following:
	case q.Tail != nil:
		after, err = ranklog.TailStart(ranklog.Path(folder, rank), *q.Tail)
	case !q.Since.IsZero():
		after, err = ranklog.SinceStart(ranklog.Path(folder, rank), q.Since)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return api.Position{}, nil
	}
	return after, err
}

func (l *localLogs) lineOf(rank int, g cluster.Generation, following bool, emit func(api.LogLine) error) func(ranklog.Text) error {
	return func(t ranklog.Text) error {
		line := api.LogLine{Node: string(l.cfg.Node), Rank: rank, Generation: uint64(g), Text: t.Line, After: &t.After}
		if t.Gap != "" {
			line.After, line.Notice = nil, fmt.Sprintf("rank %d in generation %d: %s", rank, g, t.Gap)
		}
		if following {
			line.At = time.Now().UTC()
		}
		return emit(line)
	}
}

// ended reports whether this node's workers of the generation write nothing more.
// It is false for a generation that is not in this node's mirror yet: the asking
// node may be a moment ahead.
func (l *localLogs) ended(job cluster.JobID, g cluster.Generation) (ended bool) {
	_, err := l.view.read(func(m *record.Mirror) {
		v := m.Job(job)
		plan := v.Generation(g).Plan
		_, fenced := v.Generation(g).Fences[l.cfg.Node]
		_, _, member := plan.Value.World.Member(l.cfg.Node)
		over := v.State.Value.Generation > g || v.State.Value.Generation == g && !v.State.Value.Phase.Active()
		ended = over || fenced || plan.Exists() && !member || m.Node(l.cfg.Node).Ack(job, g, plan.Value.World.Nonce).Stopped.Exists()
	})
	return err == nil && ended
}

// running reports whether a generation may still have workers.
func running(v *record.JobView, g cluster.Generation) bool {
	return v.State.Exists() && v.State.Value.Generation == g && v.State.Value.Phase.Active()
}

// folder is where this node keeps what one generation's workers wrote.
func (l *localLogs) folder(job cluster.JobID, g cluster.Generation) string {
	return filepath.Join(l.cfg.LogDir, string(job), fmt.Sprintf("g%08d", uint64(g)))
}
