package api

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/agent/ranklog"
	"github.com/bellows-ml/bellows/cluster"
)

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

// ParseLogQuery reads what a client asks for.
func ParseLogQuery(v url.Values) (LogQuery, error) {
	q := LogQuery{Follow: v.Has("follow") && v.Get("follow") != "false"}
	if s := v.Get("rank"); s != "" {
		rank, err := strconv.Atoi(s)
		if err != nil || rank < 0 {
			return q, Fault(Invalid, "rank %.20q: use 0 or more", s)
		}
		q.Rank = &rank
	}
	for name, into := range map[string]*cluster.Generation{"generation": &q.Generation, "from": &q.From} {
		if s := v.Get(name); s != "" {
			g, err := strconv.ParseUint(s, 10, 64)
			if err != nil || g == 0 {
				return q, Fault(Invalid, "%s %.20q: use 1 or more", name, s)
			}
			*into = cluster.Generation(g)
		}
	}
	if s := v.Get("tail"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return q, Fault(Invalid, "tail %.20q: use 0 or more", s)
		}
		q.Tail = &n
	}
	if s := v.Get("since"); s != "" {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return q, Fault(Invalid, "since %.40q: use a time as in 2026-01-31T18:00:00Z", s)
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
			return Fault(Invalid, "after %.40q: use rank:file:offset as lines give them", s)
		}
		if q.After == nil {
			q.After = map[int]Position{}
		}
		q.After[rank] = at
	}
	return nil
}
