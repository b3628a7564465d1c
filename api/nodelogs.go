package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/agent/ranklog"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// pollEvery is how often followed logs are looked at: soon enough for a person,
// and cheap. (inotify would miss files on a network file system.)
const pollEvery = 150 * time.Millisecond

// Position is a place in what one rank wrote in one generation. It stays true when
// logs are rotated, and when agents restart.
type Position = ranklog.Position

// LogQuery says which lines of a job are wanted.
type LogQuery struct {
	Rank       *int               // nil = every rank
	Generation cluster.Generation // 0 = every generation
	Follow     bool               // also the lines to come, until the generation, or the job, has ended
	// Tail is how many lines of each rank are wanted, the last ones there are in the
	// newest generation, in From or in Generation; those that come while following are more. nil = all.
	Tail *int
	// Since leaves out what was written before it, but for a little where the time is
	// not known exactly: a line or two, or what was written within a minute. Zero = nothing.
	Since time.Time
	// From leaves out the generations before it; 0 = none.
	From cluster.Generation
	// After says where the ranks have been read up to in generation From, or in
	// Generation: what comes goes on there. Tail does not count for those ranks.
	After map[int]Position
}

func (q LogQuery) values() url.Values {
	v := url.Values{}
	if q.Rank != nil {
		v.Set("rank", strconv.Itoa(*q.Rank))
	}
	if q.Generation != 0 {
		v.Set("generation", strconv.FormatUint(uint64(q.Generation), 10))
	}
	if q.Follow {
		v.Set("follow", "true")
	}
	if q.Tail != nil {
		v.Set("tail", strconv.Itoa(*q.Tail))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.From != 0 {
		v.Set("from", strconv.FormatUint(uint64(q.From), 10))
	}
	for _, rank := range slices.Sorted(maps.Keys(q.After)) {
		at := q.After[rank]
		v.Add("after", fmt.Sprintf("%d:%d:%d", rank, at.File, at.Offset))
	}
	return v
}

func parseLogQuery(v url.Values) (LogQuery, error) {
	q := LogQuery{Follow: v.Has("follow") && v.Get("follow") != "false"}
	if s := v.Get("rank"); s != "" {
		rank, err := strconv.Atoi(s)
		if err != nil || rank < 0 {
			return q, fault(Invalid, "rank %.20q: use 0 or more", s)
		}
		q.Rank = &rank
	}
	for name, into := range map[string]*cluster.Generation{"generation": &q.Generation, "from": &q.From} {
		if s := v.Get(name); s != "" {
			g, err := strconv.ParseUint(s, 10, 64)
			if err != nil || g == 0 {
				return q, fault(Invalid, "%s %.20q: use 1 or more", name, s)
			}
			*into = cluster.Generation(g)
		}
	}
	if s := v.Get("tail"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return q, fault(Invalid, "tail %.20q: use 0 or more", s)
		}
		q.Tail = &n
	}
	if s := v.Get("since"); s != "" {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return q, fault(Invalid, "since %.40q: use a time as in 2026-01-31T18:00:00Z", s)
		}
		q.Since = t
	}
	return q, q.parseAfter(v["after"])
}

// parseAfter reads positions as rank:file:offset.
func (q *LogQuery) parseAfter(list []string) error {
	for _, s := range list {
		rank, at := 0, Position{}
		if n, err := fmt.Sscanf(s, "%d:%d:%d", &rank, &at.File, &at.Offset); n != 3 || err != nil || rank < 0 || at.File < 0 || at.Offset < 0 {
			return fault(Invalid, "after %.40q: use rank:file:offset as lines give them", s)
		}
		if q.After == nil {
			q.After = map[int]Position{}
		}
		q.After[rank] = at
	}
	return nil
}

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
	q, err := parseLogQuery(r.URL.Query())
	if err == nil && q.Generation == 0 {
		err = fault(Invalid, "generation: a node's part of the logs belongs to one; name it")
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
		_ = out.line(LogLine{Node: string(l.cfg.Node), Rank: -1, Generation: uint64(q.Generation), Notice: err.Error(), Missing: true})
	}
	_ = out.line(LogLine{End: true})
}

// localLogs hands the lines of this node's ranks to emit; without Follow rank by
// rank, with it as they come, until the node has nothing left of the generation.
func (l *localLogs) read(ctx context.Context, job cluster.JobID, q LogQuery, emit func(LogLine) error) error {
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
	query     LogQuery
	emit      func(LogLine) error
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
		after, err := p.query.start(p.folder, rank, p.following)
		if err != nil {
			return err
		}
		p.open[rank] = ranklog.NewReader(ranklog.Path(p.folder, rank), after)
		if _, known := p.query.After[rank]; known || p.query.Tail == nil || !p.query.Follow {
			continue
		}
		if err := p.emit(LogLine{
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
func (q LogQuery) start(folder string, rank int, following bool) (after Position, err error) {
	after, known := q.After[rank]
	switch {
	case known || following:
	case q.Tail != nil:
		after, err = ranklog.TailStart(ranklog.Path(folder, rank), *q.Tail)
	case !q.Since.IsZero():
		after, err = ranklog.SinceStart(ranklog.Path(folder, rank), q.Since)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Position{}, nil
	}
	return after, err
}

func (l *localLogs) lineOf(rank int, g cluster.Generation, following bool, emit func(LogLine) error) func(ranklog.Text) error {
	return func(t ranklog.Text) error {
		line := LogLine{Node: string(l.cfg.Node), Rank: rank, Generation: uint64(g), Text: t.Line, After: &t.After}
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
