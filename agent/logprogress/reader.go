package logprogress

import (
	"fmt"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

const (
	// patience is after how many lines without a match the pattern is said to match none; few
	// are enough of a script that has been running for slow.
	patience, few = 100, 10
	slow          = time.Minute
	// burst lines may be looked at at once, and then perSecond more in each second.
	burst, perSecond = 2000, 500
)

// Word is how far a rank says that it is.
type Word struct {
	Step    int64 // optimiser steps finished since the start of training
	Samples int64 // -1 = not said
	Loss    *float64
	BadLoss bool // it said a loss that is NaN or infinite
	// Line is the line by which the training's bar was chosen; empty where the job's owner gave a pattern.
	Line string
}

// Start is where the generation that a rank is of has begun.
type Start struct {
	Step, Samples int64 // of the checkpoint that it resumed from; 0 without one, Samples -1 where unknown
	Steps         int64 // of the job in all; 0 = unknown
}

// Reader reads what one rank prints. One goroutine uses it.
type Reader struct {
	text  string
	start Start
	lines lines
	by    *pattern
	auto  *bars

	tokens float64 // lines that may be looked at
	last   time.Duration

	looked, matched int
	told            Word  // its Step is -1 until the first is told
	base            Start // what is added to what the lines say
	fell            [2]int64
	loss            loss // of a line without a step
}

// NewReader makes a reader for a spec's Progress.
func NewReader(text string, start Start) (*Reader, error) {
	r := &Reader{text: text, start: start, tokens: burst, told: Word{Step: -1, Samples: -1}}
	if text == cluster.ProgressAuto {
		r.auto = &bars{steps: start.Steps}
		return r, nil
	}
	by, err := newPattern(text)
	r.by = by
	return r, err
}

// Add takes in what was printed, at a time of a clock that never goes back. It returns what
// that says of the progress; false where it is nothing new.
func (r *Reader) Add(b []byte, now time.Duration) (Word, bool) {
	before := r.told
	r.lines.add(b, func(line []byte) { r.look(line, now) })
	return r.told, r.told != before
}

// End takes in the end of what is printed: a last line may have had no end.
func (r *Reader) End(now time.Duration) (Word, bool) {
	before := r.told
	r.lines.end(func(line []byte) { r.look(line, now) })
	return r.told, r.told != before
}

func (r *Reader) look(line []byte, now time.Duration) {
	r.tokens = min(burst, r.tokens+perSecond*max(0, now-r.last).Seconds())
	r.last = now
	if r.tokens < 1 {
		return
	}
	r.tokens--
	r.looked++
	s := r.read(line, now)
	if s.loss.told() {
		r.loss = s.loss
	}
	if s.step >= 0 {
		r.matched++
		r.count(s)
	}
}

func (r *Reader) read(line []byte, now time.Duration) said {
	if r.auto != nil {
		return r.auto.read(line, now)
	}
	return r.by.read(line)
}

// count takes a step in. The first of a generation tells from where the script counts: one
// that is far below the step of the checkpoint comes from a counter that began anew, and
// is counted on from there. Later ones do not go back.
func (r *Reader) count(s said) {
	if r.told.Step < 0 && s.step < r.start.Step && s.step <= r.start.Step/2 {
		r.base.Step, r.base.Samples = r.start.Step, max(0, r.start.Samples)
	}
	step, samples := s.step+r.base.Step, s.samples
	if samples >= 0 {
		samples += r.base.Samples
	}
	switch {
	case step < r.told.Step:
		if r.fell[0] != r.told.Step { // the line after says no more
			r.fell = [2]int64{r.told.Step, step}
		}
		return
	case step == r.told.Step && (r.told.Loss != nil || r.told.BadLoss):
		return
	}
	r.told = Word{Step: step, Samples: samples, Loss: r.loss.value, BadLoss: r.loss.bad}
	if r.auto != nil {
		r.told.Line = r.auto.line
	}
	r.loss = loss{}
}

// Matched reports whether any line has told of a step.
func (r *Reader) Matched() bool { return r.matched > 0 }

// Problem says what is wrong with what is read, with the remedy; empty = nothing.
func (r *Reader) Problem() string {
	flag := fmt.Sprintf("--progress '%s': ", r.text)
	if r.auto != nil {
		if text := r.auto.problem(r.looked); text != "" {
			return flag + text
		}
	}
	switch {
	case r.by != nil && r.by.unreadable != "" && r.matched == 0:
		return fmt.Sprintf("%sits step matched %.20q, which is no whole number: let it match the digits only, as in (\\d+)", flag, r.by.unreadable)
	case r.by != nil && r.matched == 0 && (r.looked >= patience || r.last >= slow && r.looked >= few):
		return fmt.Sprintf("%snone of the first %d lines matches, so its progress is unknown: look at them with bellows logs, and submit with a pattern that does", flag, min(r.looked, patience))
	case r.fell[0] > 0:
		return fmt.Sprintf("%sthe step went back from %d to %d, which is not counted: print one that goes on through epochs", flag, r.fell[0], r.fell[1])
	case r.base.Step > 0:
		return fmt.Sprintf("%sit resumed from step %d and its lines count from the beginning: they are counted on from there. "+
			"If it has not loaded $BELLOWS_RESUME_FROM, it trains anew; if it has, print the step since the start of training", flag, r.base.Step)
	}
	return ""
}
