package shim

import (
	"sync"
	"time"

	"github.com/bellows-ml/bellows/agent/logprogress"
)

// lineReader reads what one rank prints for its progress. The goroutine that reads the
// rank's log uses it, and tells the loop: one message at a time, whatever is printed
// meanwhile. A nil one reads nothing.
type lineReader struct {
	reporter *reporter
	reader   *logprogress.Reader
	began    time.Time

	mu      sync.Mutex
	word    *finished // not told yet
	at      time.Time // when it was read
	problem string
	posted  bool
}

// newLineReader returns what reads the lines of a rank; nil where they are not read.
func (r *reporter) newLineReader() *lineReader {
	if r.order.Progress == "" {
		return nil
	}
	start := logprogress.Start{Steps: r.order.Steps}
	if from := r.order.Resume; from != nil {
		start.Step, start.Samples = from.Step, from.Samples
	}
	reader, err := logprogress.NewReader(r.order.Progress, start)
	if err != nil { // it was submitted to a version that knows more patterns
		r.post(func() { r.linesProblem("its lines are not read on this node: " + err.Error()) })
		return nil
	}
	return &lineReader{reporter: r, reader: reader, began: time.Now()}
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
		l.word, l.at = &finished{Step: w.Step, Samples: w.Samples, Loss: w.Loss, BadLoss: w.BadLoss, line: printable(w.Line)}, now
	}
	post := !l.posted && (fresh || problem != l.problem)
	l.problem = problem
	l.posted = l.posted || post
	l.mu.Unlock()
	if post {
		matched := l.reader.Matched()
		l.reporter.post(func() { l.tell(matched) })
	}
}

// tell runs in the loop.
func (l *lineReader) tell(matched bool) {
	l.mu.Lock()
	word, at, problem := l.word, l.at, l.problem
	l.word, l.posted = nil, false
	l.mu.Unlock()
	r := l.reporter
	if r.sdkReports {
		return
	}
	if word != nil {
		word.Age = time.Since(at).Seconds()
		r.progressed(*word)
	}
	if matched || r.report.Progress == nil { // another rank's lines may well match
		r.linesProblem(problem)
	}
}

// bySDK hears that ranks say by the SDK how far they are: what lines have said is forgotten.
func (r *reporter) bySDK() {
	if r.order.Progress != "" && !r.sdkReports {
		r.report.Progress, r.first, r.losses = nil, nil, losses{}
		r.linesProblem("")
	}
	r.sdkReports = true
}

func (r *reporter) linesProblem(problem string) {
	if r.report.ProgressProblem != problem {
		r.report.ProgressProblem, r.dirty = problem, true
	}
}
