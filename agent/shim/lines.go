package shim

import (
	"sync"
	"time"

	"github.com/bellows-ml/bellows/agent/logprogress"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// lineReader reads what one rank prints for its progress. The goroutine that reads the
// rank's log uses it, and tells the loop: one message at a time, whatever is printed
// meanwhile. A nil one reads nothing.
type lineReader struct {
	*shared
	reader *logprogress.Reader
	began  time.Time

	mu      sync.Mutex
	word    *run.Finished // not told yet
	at      time.Time     // when it was read
	problem string
	posted  bool
}

// newLineReader returns what reads the lines of a rank; nil where they are not read.
func newLineReader(s *shared) *lineReader {
	if s.order.Progress == "" {
		return nil
	}
	start := logprogress.Start{Steps: s.order.Steps}
	if from := s.order.Resume; from != nil {
		start.Step, start.Samples = from.Step, from.Samples
	}
	reader, err := logprogress.NewReader(s.order.Progress, start)
	if err != nil { // it was submitted to a version that knows more patterns
		s.post(func() { s.state.ByLine(nil, true, "its lines are not read on this node: "+err.Error(), time.Now()) })
		return nil
	}
	return &lineReader{shared: s, reader: reader, began: time.Now()}
}

func (l *lineReader) add(b []byte) {
	if l != nil {
		now := time.Now()
		word, fresh := l.reader.Add(b, now.Sub(l.began))
		l.note(word, fresh, now)
	}
}

func (l *lineReader) end() {
	if l != nil {
		now := time.Now()
		word, fresh := l.reader.End(now.Sub(l.began))
		l.note(word, fresh, now)
	}
}

// note has the loop hear what is new.
func (l *lineReader) note(w logprogress.Word, fresh bool, now time.Time) {
	problem := l.reader.Problem()
	l.mu.Lock()
	if fresh {
		l.word, l.at = &run.Finished{Step: w.Step, Samples: w.Samples, Loss: w.Loss, BadLoss: w.BadLoss, Line: cluster.Printable(w.Line)}, now
	}
	post := !l.posted && (fresh || problem != l.problem)
	l.problem = problem
	l.posted = l.posted || post
	l.mu.Unlock()
	if post {
		matched := l.reader.Matched()
		l.post(func() { l.tell(matched) })
	}
}

// tell runs in the loop.
func (l *lineReader) tell(matched bool) {
	l.mu.Lock()
	word, at, problem := l.word, l.at, l.problem
	l.word, l.posted = nil, false
	l.mu.Unlock()
	now := time.Now()
	if word != nil {
		word.Age = now.Sub(at).Seconds()
	}
	l.state.ByLine(word, matched, problem, now)
}
