package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// module is what the import paths of this module begin with.
const module = "github.com/bellows-ml/bellows/"

// An event is a line of `go test -json`; go doc test2json has the fields.
type event struct {
	Time        time.Time
	Action      string
	Package     string
	ImportPath  string // of what was built
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string // import path of what could not be built
}

// A test is one that has begun: a function of a package, with its subtests.
type test struct {
	pkg, name string
	began     time.Time // or went on after its pause
	paused    bool      // it waits for its turn among parallel tests
	output    []string
}

func (t *test) String() string { return t.pkg + " " + t.name }

// A failure is what the summary repeats.
type failure struct {
	what       string
	lines      []string
	repeatable bool // a test that came to its end and complained: no race, no panic
}

// report prints what go's events say, and counts. Each step has its own; the tier's report adds what that has counted
// when the step has ended.
type report struct {
	mu    *sync.Mutex // one for all reports of a tier: what one of them prints at a time stays together
	out   io.Writer
	slow  time.Duration
	began time.Time

	every    []string            // packages of which each test gets a line
	running  map[string]*test    // by package and name
	loose    map[string][]string // output that belongs to no test, by package or by import path of a build
	lastLine time.Time

	passed, failed, skipped int
	failures, unsteady      []failure
	spent                   time.Duration // of processor time, by all that steps have started and waited for
}

func newReport(out io.Writer, slow time.Duration, now time.Time) *report {
	return &report{mu: new(sync.Mutex), out: out, slow: slow, began: now, lastLine: now, running: map[string]*test{}, loose: map[string][]string{}}
}

// forStep returns a report of a step alone, which prints to out.
func (r *report) forStep(s step, out io.Writer) *report {
	own := newReport(out, r.slow, r.began)
	own.mu, own.every, own.lastLine = r.mu, s.every, time.Now()
	return own
}

// take adds what the report of a step that has ended has counted.
func (r *report) take(own *report) {
	r.passed, r.failed, r.skipped = r.passed+own.passed, r.failed+own.failed, r.skipped+own.skipped
	r.failures, r.unsteady = append(r.failures, own.failures...), append(r.unsteady, own.unsteady...)
	r.spent += own.spent
}

// printf prints; the caller has locked the report.
func (r *report) printf(format string, args ...any) {
	fmt.Fprintf(r.out, format, args...)
}

// say prints at once.
func (r *report) say(format string, args ...any) { fmt.Fprintf(r, format, args...) }

// Write is for what commands print themselves.
func (r *report) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

// add takes the next event.
func (r *report) add(e event) {
	pkg := strings.TrimPrefix(e.Package, module)
	switch {
	case e.Action == "build-output":
		r.loose[e.ImportPath] = append(r.loose[e.ImportPath], e.Output)
	case e.Test == "":
		r.addPackage(pkg, e)
	default:
		r.addTest(pkg, e)
	}
}

// addTest takes an event of a test or of a subtest, whose output belongs to its test.
func (r *report) addTest(pkg string, e event) {
	name, _, isSub := strings.Cut(e.Test, "/")
	key := pkg + " " + name
	t := r.running[key]
	if t == nil {
		t = &test{pkg: pkg, name: name, began: e.Time}
		r.running[key] = t
	}
	if e.Action == "output" {
		if !isMarker(e.Output) {
			t.output = append(t.output, e.Output)
		}
		return
	}
	if isSub {
		return
	}
	took := seconds(e.Elapsed)
	switch e.Action {
	case "pass":
		r.passed++
		if took >= r.slow || slices.Contains(r.every, pkg) {
			r.line("pass", took, t)
		}
	case "skip":
		r.skipped++
		r.line("skip", took, t)
		r.printf("      %s\n", strings.TrimSpace(strings.Join(cause(t.output), " ")))
	case "fail":
		r.fail(t, took, !slices.ContainsFunc(t.output, isBroken))
	default:
		t.paused = e.Action == "pause"
		if e.Action == "cont" {
			t.began = e.Time
		}
		return
	}
	delete(r.running, key)
}

// line says how a test ended.
func (r *report) line(how string, took time.Duration, t *test) {
	r.lastLine = t.began.Add(took)
	r.printf("%s %7.1fs  %s\n", how, took.Seconds(), t)
}

// fail prints all that a failed test has said.
func (r *report) fail(t *test, took time.Duration, repeatable bool) {
	r.failed++
	r.line("FAIL", took, t)
	for _, l := range t.output {
		r.printf("%s", l)
	}
	r.failures = append(r.failures, failure{what: t.String(), lines: cause(t.output), repeatable: repeatable})
}

// unsteadily takes a failure back: the test has passed when it was repeated.
func (r *report) unsteadily(f failure) {
	r.failures = slices.DeleteFunc(r.failures, func(other failure) bool { return other.what == f.what })
	r.unsteady = append(r.unsteady, f)
	r.failed--
	r.passed++
}

// addPackage takes an event of a whole package.
func (r *report) addPackage(pkg string, e event) {
	switch e.Action {
	case "output":
		if verdict.MatchString(e.Output) {
			r.printf("%s", strings.ReplaceAll(e.Output, module, ""))
			return
		}
		r.loose[pkg] = append(r.loose[pkg], e.Output)
	case "fail":
		r.packageFailed(pkg, e)
		delete(r.loose, pkg)
	case "pass", "skip":
		delete(r.loose, pkg)
	}
}

// packageFailed prints what none of the package's tests has said: that it could
// not be built, a panic, tests that have not ended.
func (r *report) packageFailed(pkg string, e event) {
	said := append(r.loose[e.FailedBuild], r.loose[pkg]...)
	for _, l := range said {
		r.printf("%s", l)
	}
	unended := 0
	for _, t := range r.runningTests() {
		if t.pkg == pkg {
			unended++
			t.output = append(t.output, "    the test did not end\n")
			r.fail(t, e.Time.Sub(t.began), false)
			delete(r.running, pkg+" "+t.name)
		}
	}
	if slices.ContainsFunc(said, isBroken) {
		for i := range r.failures {
			if strings.HasPrefix(r.failures[i].what, pkg+" ") {
				r.failures[i].repeatable = false
			}
		}
	}
	known := slices.ContainsFunc(r.failures, func(f failure) bool { return strings.HasPrefix(f.what, pkg+" ") })
	if unended == 0 && !known {
		r.failed++
		r.failures = append(r.failures, failure{what: pkg, lines: cause(said)})
	}
}

// stray prints a line that is no event: go prints some of its errors so.
func (r *report) stray(line string) { r.printf("%s", line) }

// stepFailed notes a step that has failed although no test of it has.
func (r *report) stepFailed(s step, err error) {
	if s.args[0] != "test" || len(r.failures) == 0 {
		r.failed++
		what := s.what
		if s.program == "" {
			what = "go " + s.args[0] + " (" + s.what + ")"
		}
		r.failures = append(r.failures, failure{what: what, lines: []string{"    " + err.Error() + "\n"}})
	}
}

// tick names the running tests if no line was printed for long.
func (r *report) tick(now time.Time) {
	if now.Sub(r.lastLine) < quiet {
		return
	}
	r.lastLine = now
	r.printf("... %s:%s\n", now.Sub(r.began).Round(time.Second), r.named(now))
}

// named names the running tests.
func (r *report) named(now time.Time) string {
	var b strings.Builder
	for _, t := range r.runningTests() {
		fmt.Fprintf(&b, " %s (%s)", t, now.Sub(t.began).Round(time.Second))
	}
	return cmp.Or(b.String(), " no test is running: go compiles")
}

// runningTests are those that have begun, have not ended and are not paused, in the order of their beginnings.
func (r *report) runningTests() []*test {
	var all []*test
	for _, t := range r.running {
		if !t.paused {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *test) int {
		if c := a.began.Compare(b.began); c != 0 {
			return c
		}
		return strings.Compare(a.String(), b.String())
	})
	return all
}

// summary repeats the failures in brief and counts.
func (r *report) summary(now time.Time) {
	r.repeatInBrief("UNSTEADY", r.unsteady)
	r.repeatInBrief("FAIL", r.failures)
	r.printf("%d passed, %d failed, %d skipped in %s", r.passed, r.failed, r.skipped, now.Sub(r.began).Round(time.Second))
	if r.spent > 0 {
		r.printf(", %d s of processor time", int(r.spent.Seconds()))
	}
	if n := len(r.unsteady); n > 0 {
		r.printf("; of those that passed, %d failed at first", n)
	}
	r.printf("\n")
}

func (r *report) repeatInBrief(how string, failures []failure) {
	for _, f := range failures {
		r.printf("%s %s\n", how, f.what)
		for _, l := range f.lines {
			r.printf("%s", l)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

var (
	// verdict matches go's last line about a package.
	verdict = regexp.MustCompile(`^(ok  |FAIL|\?   )\t\S+`)
	// marker matches lines that say that a test goes on.
	marker = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME)\b`)
	// broken matches a line of a test that has not only complained.
	broken = regexp.MustCompile(`^panic: |^fatal error: |WARNING: DATA RACE|race detected during execution`)
	// telling matches a line that says what is wrong.
	telling = regexp.MustCompile(`^\s+\S+\.go:\d+: |^panic: |^WARNING: DATA RACE|^\S+\.go:\d+:\d+: |did not end$`)
)

func isBroken(line string) bool { return broken.MatchString(line) }

func isMarker(line string) bool { return marker.MatchString(line) }

// cause returns the lines that say what is wrong, a few of them.
func cause(output []string) []string {
	const most, longest = 10, 300
	var lines []string
	for _, l := range output {
		l = strings.TrimRight(l, "\n")
		if !telling.MatchString(l) {
			continue
		}
		if len(lines) == most {
			return append(lines, "    and more: see above\n")
		}
		if len(l) > longest {
			l = l[:longest] + "..."
		}
		lines = append(lines, l+"\n")
	}
	return lines
}
