package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/tools/arch"
)

// What go says of a package with a test of each kind, and of one that cannot be built.
const events = `
{"Action":"start","Package":"github.com/bellows-ml/bellows/e2e"}
{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestQuick"}
{"Time":"2026-01-01T00:00:00Z","Action":"output","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestQuick","Output":"=== RUN   TestQuick\n"}
{"Time":"2026-01-01T00:00:00Z","Action":"output","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestQuick","Output":"    a_test.go:7: only with -v\n"}
{"Time":"2026-01-01T00:00:01Z","Action":"pass","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestQuick","Elapsed":0.1}
{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestSlow"}
{"Time":"2026-01-01T00:00:09Z","Action":"pass","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestSlow","Elapsed":8}
{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestRoot"}
{"Time":"2026-01-01T00:00:01Z","Action":"output","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestRoot","Output":"    b_test.go:9: run it as root\n"}
{"Time":"2026-01-01T00:00:01Z","Action":"skip","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestRoot","Elapsed":0}
{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestBad"}
{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestBad/sub"}
{"Time":"2026-01-01T00:00:01Z","Action":"output","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestBad/sub","Output":"    c_test.go:3: 2, want 3\n"}
{"Time":"2026-01-01T00:00:01Z","Action":"output","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestBad/sub","Output":"        and a log\n"}
{"Time":"2026-01-01T00:00:02Z","Action":"fail","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestBad/sub","Elapsed":1}
{"Time":"2026-01-01T00:00:02Z","Action":"fail","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestBad","Elapsed":1}
{"Time":"2026-01-01T00:00:03Z","Action":"run","Package":"github.com/bellows-ml/bellows/e2e","Test":"TestStuck"}
{"Time":"2026-01-01T00:10:00Z","Action":"output","Package":"github.com/bellows-ml/bellows/e2e","Output":"panic: test timed out after 10m0s\n"}
{"Time":"2026-01-01T00:10:03Z","Action":"output","Package":"github.com/bellows-ml/bellows/e2e","Output":"FAIL\tgithub.com/bellows-ml/bellows/e2e\t603.000s\n"}
{"Time":"2026-01-01T00:10:03Z","Action":"fail","Package":"github.com/bellows-ml/bellows/e2e","Elapsed":603}
{"ImportPath":"github.com/bellows-ml/bellows/api [x.test]","Action":"build-output","Output":"api/a.go:3:5: undefined: x\n"}
{"ImportPath":"github.com/bellows-ml/bellows/api [x.test]","Action":"build-fail"}
{"Action":"output","Package":"github.com/bellows-ml/bellows/api","Output":"FAIL\tgithub.com/bellows-ml/bellows/api [build failed]\n"}
{"Action":"fail","Package":"github.com/bellows-ml/bellows/api","FailedBuild":"github.com/bellows-ml/bellows/api [x.test]"}
{"Time":"2026-01-01T00:10:03Z","Action":"run","Package":"github.com/bellows-ml/bellows/store","Test":"TestOther"}
{"Time":"2026-01-01T00:10:03Z","Action":"pass","Package":"github.com/bellows-ml/bellows/store","Test":"TestOther","Elapsed":0.1}
{"Action":"output","Package":"github.com/bellows-ml/bellows/store","Output":"ok  \tgithub.com/bellows-ml/bellows/store\t0.200s\n"}
{"Action":"pass","Package":"github.com/bellows-ml/bellows/store"}
`

const want = `pass     0.1s  e2e TestQuick
pass     8.0s  e2e TestSlow
skip     0.0s  e2e TestRoot
      b_test.go:9: run it as root
FAIL     1.0s  e2e TestBad
    c_test.go:3: 2, want 3
        and a log
FAIL	e2e	603.000s
panic: test timed out after 10m0s
FAIL   600.0s  e2e TestStuck
    the test did not end
FAIL	api [build failed]
api/a.go:3:5: undefined: x
ok  	store	0.200s
FAIL e2e TestBad
    c_test.go:3: 2, want 3
FAIL e2e TestStuck
    the test did not end
FAIL api
api/a.go:3:5: undefined: x
3 passed, 3 failed, 1 skipped in 10m5s
`

func TestReport(t *testing.T) {
	var out strings.Builder
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newReport(&out, 3*time.Second, began)
	r.every = []string{"e2e"}
	read(r, strings.NewReader(strings.TrimSpace(events)), true)
	r.stepFailed(step{what: "tests", args: []string{"test"}}, errors.New("exit status 1"))
	r.summary(began.Add(10*time.Minute + 5*time.Second))
	if out.String() != want {
		t.Errorf("the report is\n%s\nand should be\n%s", &out, want)
	}
}

// A suite that says nothing for a minute is asked what it does.
func TestReportNamesWhatIsRunning(t *testing.T) {
	var out strings.Builder
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newReport(&out, time.Second, began)
	r.tick(began.Add(quiet))
	r.add(event{Action: "run", Package: module + "e2e", Test: "TestA", Time: began.Add(quiet)})
	r.add(event{Action: "run", Package: module + "e2e", Test: "TestB", Time: began.Add(quiet)})
	r.add(event{Action: "pause", Package: module + "e2e", Test: "TestB"})
	r.tick(began.Add(quiet + time.Second))
	r.tick(began.Add(2*quiet + 5*time.Second))
	r.add(event{Action: "cont", Package: module + "e2e", Test: "TestB", Time: began.Add(3 * quiet)})
	r.tick(began.Add(4 * quiet))
	const want = "... 1m0s: no test is running: go compiles\n... 2m5s: e2e TestA (1m5s)\n... 4m0s: e2e TestA (3m0s) e2e TestB (1m0s)\n"
	if out.String() != want {
		t.Errorf("it says\n%s\nand should say\n%s", &out, want)
	}
}

// A step that fails without an event of a failure fails the tier, too.
func TestStepThatFailsWithoutATest(t *testing.T) {
	for _, args := range [][]string{{"test"}, {"build"}} {
		var out strings.Builder
		r := newReport(&out, time.Second, time.Time{})
		r.stepFailed(step{what: "a step", args: args}, errors.New("exit status 2"))
		r.summary(time.Time{})
		if want := "0 passed, 1 failed"; !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "exit status 2") {
			t.Errorf("%s: %s", args, &out)
		}
	}
}

// A step that runs beside others starts before them. It is printed whole as soon as it has ended, and fails the tier as any other.
func TestAStepBesideOthers(t *testing.T) {
	for _, c := range []struct {
		status string
		passed bool
	}{{"0", true}, {"3", false}} {
		dir := t.TempDir()
		began, seen, ended := filepath.Join(dir, "began"), filepath.Join(dir, "seen"), filepath.Join(dir, "ended")
		await := func(file string) string { return "until [ -e " + file + " ]; do sleep 0.01; done; " }
		var out strings.Builder
		r := newReport(&out, time.Second, time.Time{})
		passed := r.run(t.Context(), []step{
			{what: "the other", program: "sh", beside: true, args: []string{"-c", "echo one; touch " + began + "; " + await(seen) + "echo two; touch " + ended + "; exit " + c.status}},
			{what: "the first", program: "sh", args: []string{"-c", await(began) + "echo seen; touch " + seen + "; " + await(ended)}},
		})
		r.summary(time.Time{})
		if passed != c.passed {
			t.Errorf("exit status %s: the tier passes: %v", c.status, passed)
		}
		// The lines of the first step may be read only after the other step has ended.
		text := strings.Replace(out.String(), "seen\n", "", 1)
		if !strings.HasPrefix(text, "== the first\n== the other\none\ntwo\n") || strings.Count(out.String(), "seen\n") != 1 || strings.Contains(out.String(), "FAIL the other\n    exit status 3\n0 passed, 1 failed") == c.passed {
			t.Errorf("exit status %s: it prints\n%s", c.status, &out)
		}
	}
}

// After an interrupt no step begins, and the tier fails.
func TestNoStepBeginsAfterAnInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	file := filepath.Join(t.TempDir(), "began")
	var out strings.Builder
	r := newReport(&out, time.Second, time.Time{})
	passed := r.run(ctx, []step{
		{what: "the other", program: "touch", beside: true, args: []string{file}},
		{what: "the first", program: "touch", args: []string{file}},
	})
	if _, err := os.Stat(file); err == nil || passed {
		t.Errorf("a step began (%v), the tier passes: %v", err, passed)
	}
}

// goIs has a script be the go command.
func goIs(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// What failed is repeated when all steps have ended, also what failed beside others, and is printed then.
func TestFailuresAreRepeatedAfterAllSteps(t *testing.T) {
	dir := t.TempDir()
	failed, repeated := filepath.Join(dir, "failed"), filepath.Join(dir, "repeated")
	script := `#!/bin/sh
case "$*" in
*-short*-run*) touch ` + repeated + `; echo passes now;;
*) touch ` + failed + `; echo '{"Action":"run","Package":"a","Test":"TestA"}'; echo '{"Action":"fail","Package":"a","Test":"TestA"}'; exit 1;;
esac
`
	goIs(t, script)
	var out strings.Builder
	r := newReport(&out, time.Second, time.Time{})
	passed := r.run(t.Context(), []step{
		{what: "the other", beside: true, repeats: true, args: []string{"test", "beside", "-short"}},
		{what: "the first", program: "sh", args: []string{"-c", "until [ -e " + failed + " ]; do sleep 0.01; done; sleep 0.5; [ ! -e " + repeated + " ]"}},
	})
	r.summary(r.began)
	if _, err := os.Stat(repeated); err != nil || !passed {
		t.Errorf("it was repeated: %v, the tier passes: %v", err, passed)
	}
	if want := "== a TestA again, alone, 3 times\npasses now\nUNSTEADY a TestA\n1 passed, 0 failed"; !strings.Contains(out.String(), want) {
		t.Errorf("want %q in\n%s", want, &out)
	}
}

// After an interrupt nothing is repeated: the keeper gives what still runs a few seconds.
func TestNothingIsRepeatedAfterAnInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	dir := t.TempDir()
	began := filepath.Join(dir, "began")
	script := `#!/bin/sh
touch ` + began + `; echo '{"Action":"run","Package":"a","Test":"TestA"}'; echo '{"Action":"fail","Package":"a","Test":"TestA"}'; exit 1
`
	goIs(t, script)
	go func() {
		for {
			if _, err := os.Stat(began); err == nil {
				interrupt()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var out strings.Builder
	r := newReport(&out, time.Second, time.Time{})
	passed := r.run(ctx, []step{
		{what: "the other", beside: true, repeats: true, args: []string{"test", "beside"}},
		{what: "the first", program: "sleep", args: []string{"1"}},
	})
	r.summary(r.began)
	if passed || strings.Contains(out.String(), "again, alone") || !strings.Contains(out.String(), "FAIL a TestA\n") {
		t.Errorf("the tier passes: %v, and says\n%s", passed, &out)
	}
}

// A step that gets what is left has the lowest priority, is in a session of its own, and ends when the tier is interrupted.
func TestAStepThatGetsWhatIsLeft(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	said := make(lines, 100)
	r := newReport(said, time.Second, time.Time{})
	next := func() string {
		select {
		case line := <-said:
			return line
		case <-time.After(time.Minute):
			t.Fatal("the step says nothing")
			return ""
		}
	}
	passed := make(chan bool, 1)
	go func() {
		script := `trap 'echo interrupted; kill $!; exit 1' INT; nice; cut -d' ' -f6 /proc/$$/stat; cat /proc/$$/autogroup 2>/dev/null || echo none; sleep 1000 & echo $$; wait`
		passed <- r.run(ctx, []step{{what: "the other", program: "sh", spare: true, args: []string{"-c", script}}})
	}()
	next() // the heading
	nice, session, autogroup, own := next(), next(), next(), next()
	if nice != "19" || session != own {
		t.Errorf("its niceness is %s, its session %s, its process %s", nice, session, own)
	}
	// The kernel lets users other than root change an autogroup ten times a second, all of them together.
	if os.Geteuid() == 0 && autogroup != "none" && !strings.HasSuffix(autogroup, " nice 19") {
		t.Errorf("its autogroup is %q", autogroup)
	}
	interrupt()
	if word := next(); word != "interrupted" || <-passed {
		t.Errorf("it says %q and passes", word)
	}
}

// lines has a channel of what is written to it, by lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l <- strings.TrimSuffix(line, "\n")
	}
	return len(p), nil
}

// Go's tests that run beside others are counted with theirs, and their failures are repeated in brief.
func TestGosTestsBesideOthers(t *testing.T) {
	script := `#!/bin/sh
case "$3" in
beside) echo '{"Action":"run","Package":"a","Test":"TestA"}'; echo '{"Action":"fail","Package":"a","Test":"TestA"}'; exit 1;;
*) echo '{"Action":"run","Package":"b","Test":"TestB"}'; echo '{"Action":"pass","Package":"b","Test":"TestB"}';;
esac
`
	goIs(t, script)
	var out strings.Builder
	r := newReport(&out, time.Second, time.Time{})
	passed := r.run(t.Context(), []step{
		{what: "the other", beside: true, args: []string{"test", "beside"}},
		{what: "the first", args: []string{"test", "first"}},
	})
	r.summary(r.began)
	if want := "FAIL a TestA\n1 passed, 1 failed, 0 skipped"; passed || !strings.Contains(out.String(), want) {
		t.Errorf("the tier passes: %v; want %q in\n%s", passed, want, &out)
	}
}

// Every package of the table is in the tier that a change has to pass, and each is tested once,
// but for the simulations: whole, and in part with the race detector.
func TestTiersHaveEveryPackage(t *testing.T) {
	seen := map[string]int{}
	for _, row := range arch.Rows() {
		seen["./"+row.Path]++
	}
	for _, s := range tiers()["test"] {
		for _, a := range s.args {
			if s.args[0] == "test" && strings.HasPrefix(a, "./") {
				seen[a] += 10
			}
		}
	}
	for p, n := range seen {
		want := 11
		if p == simulations {
			want = 21
		}
		if n != want {
			t.Errorf("%s is counted %d times", p, n)
		}
	}
}

func TestEventsAreGos(t *testing.T) {
	var e event
	if err := json.Unmarshal([]byte(`{"Action":"fail","Package":"p","Test":"T","Elapsed":1.5,"FailedBuild":"q"}`), &e); err != nil || e.Elapsed != 1.5 || e.FailedBuild != "q" {
		t.Errorf("%+v, %v", e, err)
	}
}

// The time of a busy machine says little: what was used of its processors is told, too.
func TestProcessorTimeIsTold(t *testing.T) {
	var out strings.Builder
	began := time.Unix(0, 0)
	r := newReport(&out, time.Second, began)
	busy := exec.Command("sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done")
	if err := busy.Run(); err != nil {
		t.Fatal(err)
	}
	own := r.forStep(step{what: "busy"}, &out)
	own.spend(step{what: "busy"}, busy)
	own.spend(step{what: "never started"}, exec.Command("true"))
	if own.spent <= 0 {
		t.Fatal("a loop took no processor time")
	}
	own.spent = 75 * time.Second
	r.take(own)
	r.summary(began.Add(time.Minute))
	if text := out.String(); !strings.HasPrefix(text, "== busy: ") || !strings.HasSuffix(text, "0 passed, 0 failed, 0 skipped in 1m0s, 75 s of processor time\n") {
		t.Errorf("told is %q", text)
	}
}
