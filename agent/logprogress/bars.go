package logprogress

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// lives is how long a bar must have been drawn before it is believed to be the training's,
	// moves how often it must have moved in that time.
	lives, moves = 10 * time.Second, 3
	// spans is how long a bar must take in all, by its own account, to span a run: the bars of
	// downloads and of most evaluations are over before.
	spans = time.Minute
	// patienceAuto is after how many lines without one that is said: a bar is some hundred lines long before it is believed.
	patienceAuto = 1000
	// maxBars bounds the bars that are remembered while none is chosen.
	maxBars = 32
	// shown is how much of the chosen line is told.
	shown = 100
)

var (
	// tqdmBar is a bar of tqdm's, and so of the Hugging Face Trainer and of Lightning:
	//
	//	Epoch 3:  45%|████▌     | 45/100 [00:05<00:06,  8.71it/s, v_num=0, train_loss=0.52]
	tqdmBar = regexp.MustCompile(`^\s*(?P<what>.*?)\s*\d{1,3}%\|[^|]*\|\s*(?P<n>\d+)/(?P<total>\d+)\s*` +
		`\[(?P<took>[\d:]+)<(?P<left>[\d:]+|\?),\s*(?:[\d.]+|\?)\s*(?P<unit>[a-z]+/[a-z]+)(?:,\s*(?P<rest>.*?))?\]`)
	// barLoss is the loss after a bar, trainerLoss the one that Trainer prints on a line of its own.
	barLoss     = regexp.MustCompile(`(?:^|[ ,])(?:train_)?loss(?:_step)?=([^ ,\]]+)`)
	trainerLoss = regexp.MustCompile(`^\s*\{'loss': '?([^',}]+)`)
	// epoch is the number of a pass over the data in front of a bar; with a total it counts from 1.
	epoch  = regexp.MustCompile(`(?i)^epoch:?\s*\[?(\d+)(/\d+)?`)
	digits = regexp.MustCompile(`\d+`)
	// otherwise are the words in front of bars that are none of a training's.
	otherwise = regexp.MustCompile(`(?i)valid|eval|test|sanity|predict|infer|download|upload|fetch|load|sav|map|filter|token|generat|extract|process|shard|cach|warm`)
	// units are those of steps. Others are examples, files and bytes.
	units = map[string]bool{"it/s": true, "s/it": true, "step/s": true, "s/step": true, "steps/s": true, "batch/s": true, "s/batch": true, "batches/s": true, "iter/s": true, "s/iter": true}
)

// bar is one bar as it is drawn.
type bar struct {
	what     string // in front of it, with all numbers alike
	n, total int64
	epoch    int64 // passes before this one, as it says; -1: it says nothing of them
	all      time.Duration
}

// same reports whether two lines draw the same bar, if need be of another pass.
func (b bar) same(o bar) bool { return b.what == o.what && b.total == o.total }

func readBar(line []byte) (b bar, rest string, ok bool) {
	if bytes.IndexByte(line, '|') < 0 {
		return bar{}, "", false
	}
	m := tqdmBar.FindStringSubmatch(string(line))
	if m == nil {
		return bar{}, "", false
	}
	group := func(name string) string { return m[tqdmBar.SubexpIndex(name)] }
	what := group("what")
	n, okN := whole(group("n"))
	total, okTotal := whole(group("total"))
	if !okN || !okTotal || n > total || total == 0 || !units[group("unit")] || otherwise.MatchString(what) {
		return bar{}, "", false
	}
	b = bar{what: digits.ReplaceAllString(what, "#"), n: n, total: total, epoch: -1, all: clock(group("took")) + clock(group("left"))}
	if e := epoch.FindStringSubmatch(what); e != nil {
		if b.epoch, ok = whole(e[1]); !ok || b.epoch > 1<<30 {
			return bar{}, "", false
		}
		if e[2] != "" && b.epoch > 0 {
			b.epoch--
		}
	}
	return b, group("rest"), true
}

// clock reads 1:02:03 or 02:03; 0 if it is neither.
func clock(text string) time.Duration {
	total := 0
	for part := range strings.SplitSeq(text, ":") {
		n, err := strconv.Atoi(part)
		if err != nil || n > 1<<20 {
			return 0
		}
		total = total*60 + n
	}
	return time.Duration(total) * time.Second
}

// candidate is a bar that may be the training's.
type candidate struct {
	bar
	first, last time.Duration // when it was drawn
	moved       int
}

// bars reads lines by the bars in them. Which bar is the training's is not known at
// first: the one whose total is the job's number of steps is; else one that has been drawn for a while, and
// that spans a run by its own account, or counts epochs. Once chosen it stays.
type bars struct {
	steps  int64 // of the job in all, as its owner says; 0 = unknown
	seen   []candidate
	chosen *bar
	line   string // by which it was chosen
	base   int64  // steps of passes before, where the bar does not number them
	loss   loss
	other  bool // another bar was drawn after the chosen one was full
}

func (c *bars) read(line []byte, now time.Duration) said {
	if m := trainerLoss.FindSubmatch(line); m != nil {
		c.loss = readLoss(string(m[1]))
		return nothing
	}
	b, rest, ok := readBar(line)
	if !ok {
		return nothing
	}
	if c.chosen == nil && !c.choose(b, line, now) {
		return nothing
	}
	if !b.same(*c.chosen) {
		c.other = c.other || c.chosen.n == c.chosen.total && b.n > 0 && b.n < b.total
		return nothing
	}
	if b.epoch < 0 && b.n < c.chosen.n {
		c.base += b.total
	}
	c.chosen, c.other = &b, false
	s := said{step: c.base + b.n, samples: -1, loss: c.loss}
	if b.epoch >= 0 {
		s.step = b.epoch*b.total + b.n
	}
	if m := barLoss.FindStringSubmatch(rest); m != nil {
		s.loss = readLoss(m[1])
	}
	return s
}

// choose takes a bar into account, and reports whether it is the training's.
func (c *bars) choose(b bar, line []byte, now time.Duration) bool {
	if (c.steps == 0 || b.total != c.steps) && !c.believed(b, now) {
		return false
	}
	c.chosen, c.seen = &b, nil
	text := strings.ToValidUTF8(strings.TrimSpace(string(line)), "")
	c.line = text[:min(len(text), shown)]
	c.line = strings.ToValidUTF8(c.line, "")
	return true
}

// believed takes a bar into account, and reports whether it has been drawn as only the training's is.
func (c *bars) believed(b bar, now time.Duration) bool {
	i := 0
	for i < len(c.seen) && !c.seen[i].same(b) {
		i++
	}
	if i == len(c.seen) {
		if i == maxBars {
			return false
		}
		c.seen = append(c.seen, candidate{bar: b, first: now})
	}
	x := &c.seen[i]
	if b.n != x.n || b.epoch != x.epoch {
		x.moved++
	}
	x.bar, x.last = b, now
	return now-x.first >= lives && x.moved >= moves && (x.all >= spans || x.epoch >= 0) && !c.longer(*x)
}

// longer reports whether another bar is drawn that is not full and takes longer by its own
// account, or does not know yet.
func (c *bars) longer(x candidate) bool {
	return slices.ContainsFunc(c.seen, func(o candidate) bool {
		return !o.same(x.bar) && o.n < o.total && x.last-o.last < spans && (o.all == 0 || o.all > x.all)
	})
}

func (c *bars) problem(lines int) string {
	switch {
	case c.chosen == nil && lines >= patienceAuto:
		return fmt.Sprintf("in %d lines there is no bar of tqdm's that spans the run or whose total is that of --steps: give --steps, or a pattern such as 'step (\\d+)'", patienceAuto)
	case c.other:
		return "the bar that it reads is full, and another is being drawn: is that the training's? Give --steps, or a pattern such as 'step (\\d+)'"
	}
	return ""
}
