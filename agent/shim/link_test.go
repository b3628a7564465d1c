package shim

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// speaker is a worker that says to its shim whatever is put into its workdir as
// say-0, say-1, … and writes down what it is told.
const speaker = `
import os, socket, threading, time
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["BELLOWS_WORKER_SOCKET"])
def listen():
    for line in s.makefile():
        with open("heard", "a") as f: f.write(line)
    with open("heard", "a") as f: f.write("END\n")
threading.Thread(target=listen, daemon=True).start()
open("up-0", "w").write("up\n")
n = 0
while True:
    try:
        with open("say-%d" % n) as f: text = f.read()
        s.sendall(text.encode()); n += 1
    except FileNotFoundError: time.sleep(0.005)
`

func (f *fixture) says(n int, lines ...string) {
	f.t.Helper()
	path := filepath.Join(f.order.Workdir, "say-"+itoa(n))
	write(f.t, path+".tmp", strings.Join(lines, "\n")+"\n", 0o644)
	if err := os.Rename(path+".tmp", path); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) hears(want string) {
	f.t.Helper()
	eventually(f.t, "the worker hears "+want, func() bool {
		b, _ := os.ReadFile(filepath.Join(f.order.Workdir, "heard"))
		return strings.Contains(string(b), want)
	})
}

const hello = `{"hello":{"version":1,"rank":0,"pid":1}}`

func TestWhatWorkersMayNotSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ says, hears string }{
		"nothing before hello": {`{"saved":{"step":1,"samples":1,"dir":"/x"}}`, "say hello first"},
		"another version":      {`{"hello":{"version":2,"rank":0,"pid":1}}`, "this shim speaks version 1"},
		"a rank of elsewhere":  {`{"hello":{"version":1,"rank":7,"pid":1}}`, "rank 7 is not on this node"},
		"another's rank":       {`{"hello":{"version":1,"rank":1,"pid":1}}`, "does not belong to rank 1"},
		"no JSON":              {"GET / HTTP/1.1", "not a line of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2, "").python(`
import os, time
if os.environ["RANK"] == "1": time.sleep(1000)
` + speaker).start()
			f.started()
			f.says(0, c.says)
			f.hears(c.hears)
			f.hears("END") // and it hangs up
		})
	}
}

func TestSavesStayBelowTheCheckpointDirectory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(speaker).start()
	f.started()
	f.says(0, hello,
		`{"saved":{"step":1,"samples":1,"dir":"/etc"}}`,
		`{"saved":{"step":2,"samples":1,"dir":"`+f.order.Checkpoint+`/../../x"}}`,
		`{"saved":{"step":3,"samples":1,"dir":"`+f.order.Checkpoint+`"}}`,
		`{"saved":{"step":-4,"samples":1,"dir":"`+f.order.Checkpoint+`/x"}}`,
		`{"saved":{"step":5,"samples":1,"dir":"relative"}}`,
		`{"surprise":{}}`,
		`{"saved":{"step":6,"samples":60,"dir":"`+f.order.Checkpoint+`/step-6"}}`)
	f.hears(`{"saved_ok":6}`)
	f.hears("unknown message")
	r := f.await("the save", func(r run.Report) bool { return len(r.Saves) > 0 })
	if len(r.Saves) != 1 || r.Saves[0] != (run.Save{Step: 6, Samples: 60, Dir: f.order.Checkpoint + "/step-6"}) {
		t.Errorf("saves %+v", r.Saves)
	}
	heard := f.read("work", "heard")
	if n := strings.Count(heard, `"error"`); n != 6 {
		t.Errorf("%d errors in %s", n, heard)
	}
	// What was confirmed is on disk at that moment, not later.
	if disk, err := ReadReport(f.dir); err != nil || len(disk.Saves) != 1 {
		t.Errorf("on disk: %+v, %v", disk.Saves, err)
	}
}

// A worker can speak before the machine has heard that it was started, and
// nothing of what it says may be lost.
func TestWordsThatComeBeforeTheBirth(t *testing.T) {
	m := testMachine(t)
	m.phase = starting
	m.workers = []*worker{{Worker: record.Worker{Rank: 0}}, {Worker: record.Worker{Rank: 1}}}
	s := m.sdk
	k := &link{cred: &unix.Ucred{Pid: int32(os.Getpid())}, lineage: lineage(os.Getpid()), out: make(chan outgoing, linkQueue), gone: make(chan struct{})}
	s.links[k] = true
	for _, line := range []string{`{"hello":{"version":1,"rank":1,"pid":1}}`, `{"progress":{"step":4,"samples":8}}`, `{"held":{"begun":5}}`} {
		var msg fromWorker
		if err := json.Unmarshal([]byte(line), &msg); err != nil {
			t.Fatal(err)
		}
		s.hear(k, msg)
	}
	s.admitEarly() // another worker's birth changes nothing
	if k.worker != nil || k.refused || m.report.Progress != nil {
		t.Fatalf("worker %v, refused %v, progress %v", k.worker, k.refused, m.report.Progress)
	}
	m.workers[1].PID = os.Getpid()
	s.admitEarly()
	if w := m.workers[1]; w.link != k || w.begun == nil || *w.begun != 5 || m.report.Progress == nil || m.report.Progress.Step != 4 {
		t.Errorf("worker %+v, progress %+v", w, m.report.Progress)
	}
	if o := <-k.out; o.message.Welcome == nil || len(k.out) > 0 || len(k.early) > 0 {
		t.Errorf("told %+v and %d more, %d are left; want a welcome", o.message, len(k.out), len(k.early))
	}
}

// A rank that says hello during a halt must not begin a step on being welcomed:
// the others may have been told their last one already.
func TestDuringAHaltTheHoldComesBeforeTheWelcome(t *testing.T) {
	for _, halted := range []bool{false, true} {
		m := testMachine(t)
		m.phase = running
		m.workers = []*worker{{Worker: record.Worker{Rank: 0, PID: os.Getpid()}}}
		if halted {
			m.halter.seen = 1
		}
		s := m.sdk
		k := &link{cred: &unix.Ucred{Pid: int32(os.Getpid())}, lineage: lineage(os.Getpid()), out: make(chan outgoing, linkQueue), gone: make(chan struct{})}
		s.links[k] = true
		var msg fromWorker
		if err := json.Unmarshal([]byte(hello), &msg); err != nil {
			t.Fatal(err)
		}
		s.hear(k, msg)
		var told []string
		for len(k.out) > 0 {
			switch o := <-k.out; {
			case o.message.Hold != nil:
				told = append(told, "hold")
			case o.message.Welcome != nil:
				told = append(told, "welcome")
			default:
				t.Errorf("told %+v", o.message)
			}
		}
		want := []string{"welcome"}
		if halted {
			want = []string{"hold", "welcome"}
		}
		if !slices.Equal(told, want) {
			t.Errorf("halted %v: told %v, want %v", halted, told, want)
		}
	}
}

func TestTheNewestStepsAreKept(t *testing.T) {
	m := assemble(&shared{}, run.Report{})
	for step := range int64(10) {
		for rank := range 3 {
			m.addSave(run.Save{Step: 9 - step, Rank: 2 - rank})
			m.addSave(run.Save{Step: 9 - step, Rank: 2 - rank, Samples: 1}) // again: it replaces
		}
	}
	if len(m.report.Saves) != 3*keptSteps {
		t.Fatalf("%d saves", len(m.report.Saves))
	}
	for i, s := range m.report.Saves {
		if want := (run.Save{Step: int64(10 - keptSteps + i/3), Rank: i % 3, Samples: 1}); s != want {
			t.Errorf("save %d is %+v, want %+v", i, s, want)
		}
	}
}

func TestProgressIsMeasured(t *testing.T) {
	m := assemble(&shared{}, run.Report{})
	loss := 0.5
	m.progressed(finished{Step: 10, Samples: 640})
	at := m.report.Progress.At
	m.progressed(finished{Step: 10, Samples: 640, Loss: &loss}) // the second rank of the same step adds its loss
	m.progressed(finished{Step: 9, Samples: 576})               // a late one changes nothing
	if p := m.report.Progress; p.Step != 10 || p.Loss == nil || *p.Loss != loss || !p.At.Equal(at) {
		t.Errorf("progress %+v, want that of %v", p, at)
	}
	m.first.At = m.first.At.Add(-10e9)
	m.progressed(finished{Step: 10, Samples: 640, Noise: 96, Base: 15}) // as may another what a batch is worth
	if p := m.report.Progress; p.Loss == nil || *p.Loss != loss || p.NoiseScale != 96 || p.BaseSteps != 15 {
		t.Errorf("%+v", p)
	}
	m.progressed(finished{Step: 110, Samples: 7040})
	if p := m.report.Progress; p.StepsPerSecond < 9 || p.StepsPerSecond > 10 || p.SamplesPerSecond < 9*64 || p.SamplesPerSecond > 10*64 {
		t.Errorf("%v steps and %v samples a second, want 100 and 6400 in a little more than 10 s", p.StepsPerSecond, p.SamplesPerSecond)
	}
	if p := m.report.Progress; p.FirstStep != 10 || p.At.Sub(p.FirstAt).Seconds()*p.StepsPerSecond < 99.99 {
		t.Errorf("first step %d at %v, now %v", p.FirstStep, p.FirstAt, p.At)
	}
}

// A speed is measured from the first step that a generation has finished, not from its start.
func TestTheFirstFinishedStepIsKept(t *testing.T) {
	m := assemble(&shared{order: run.Order{Resume: &record.Checkpoint{Step: 500}}}, run.Report{})
	m.progressed(finished{Step: 500, Samples: -1}) // as a loop reports that begins by it
	if p := m.report.Progress; p.Step != 500 || p.FirstStep != 0 || !p.FirstAt.IsZero() {
		t.Fatalf("nothing is finished: %+v", p)
	}
	m.progressed(finished{Step: 501, Samples: -1})
	first := m.report.Progress.FirstAt
	m.progressed(finished{Step: 520, Samples: 99})
	if p := m.report.Progress; p.FirstStep != 501 || first.IsZero() || !p.FirstAt.Equal(first) || p.SamplesPerSecond != 0 {
		t.Errorf("%+v, want the first step 501 at %v, and no samples a second of samples that were unknown", p, first)
	}
	// The node's clock is set by an hour between two reports.
	m.firstAt = m.firstAt.Add(time.Hour)
	m.progressed(finished{Step: 530})
	if p := m.report.Progress; p.FirstAt.After(p.At) || p.At.Sub(p.FirstAt) > time.Minute {
		t.Errorf("after the clock was set: first at %v, now %v", p.FirstAt, p.At)
	}
}

// The SDK passes on one report a second, and the last one when the script ends, which is
// after its last save: the step was finished before that, but not before the last report.
func TestAWordThatWasKeptBackIsAsOldAsItIs(t *testing.T) {
	m := assemble(&shared{}, run.Report{})
	for _, c := range []struct {
		age       float64
		low, high time.Duration
	}{{30, 29 * time.Second, 31 * time.Second}, {1e18, 59 * time.Second, 61 * time.Second}, {-1e18, -time.Second, time.Second}} {
		m.report.Progress, m.progressAt = &record.JobProgress{Step: 1}, time.Now().Add(-time.Minute)
		m.progressed(finished{Step: 2, Age: c.age})
		if ago := time.Since(m.report.Progress.At); ago < c.low || ago > c.high {
			t.Errorf("finished %v s ago, as it says: %v", c.age, ago)
		}
	}
}

func TestImpossibleProgressIsNoProgress(t *testing.T) {
	m := assemble(&shared{}, run.Report{})
	m.progressed(finished{Step: 7})
	for _, f := range []finished{{Step: -1}, {Step: record.MaxCount + 1}, {Step: 8, Samples: record.MaxCount + 1}} {
		if m.progressed(f); m.report.Progress.Step != 7 {
			t.Errorf("%+v makes it %+v", f, m.report.Progress)
		}
	}
}

func TestProgressAloneIsReportedOnceASecond(t *testing.T) {
	m := testMachine(t)
	now := int64(1e12)
	m.progressed(finished{Step: 1, Samples: 1})
	if m.stepProgress(now); !m.fresh {
		t.Error("the first one waits")
	}
	m.fresh = false
	m.progressed(finished{Step: 2, Samples: 2})
	if m.stepProgress(now + int64(progressEvery)/2); m.fresh || m.alarm.next != now+int64(progressEvery) {
		t.Errorf("half a second later: fresh %v, next look %d", m.fresh, m.alarm.next)
	}
	if m.stepProgress(now + int64(progressEvery)); !m.fresh {
		t.Error("a second later: not reported")
	}
}

// A worker's socket is for that worker only: a stranger of the same user is refused.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100").start()
	f.started()
	c, err := net.Dial("unix", filepath.Join(f.dir, workerSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err = c.Write([]byte(hello + "\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "does not belong to rank 0") {
		t.Errorf("heard %q, %v", line, err)
	}
}

// A worker that has ended before its first words were heard has said them all the same.
func TestTheWordsOfAWorkerThatHasEndedCount(t *testing.T) {
	for name, c := range map[string]struct {
		lineage []int
		heard   bool
	}{
		"the worker":          {[]int{77, 5}, true},
		"a child of it":       {[]int{99, 77, 5}, true},
		"a process of others": {[]int{99, 5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ended := &worker{Worker: record.Worker{PID: 77}, exit: &record.Exit{}}
			m := assemble(&shared{workers: []*worker{ended}, phase: running}, run.Report{})
			k := &link{cred: &unix.Ucred{Pid: int32(c.lineage[0])}, lineage: c.lineage, out: make(chan outgoing, linkQueue)} //nolint:gosec // a small number
			for _, line := range []string{hello, `{"progress":{"step":4}}`} {
				var msg fromWorker
				if err := json.Unmarshal([]byte(line), &msg); err != nil {
					t.Fatal(err)
				}
				m.sdk.hear(k, msg)
			}
			if p := m.report.Progress; (p != nil && p.Step == 4) != c.heard || k.refused == c.heard || ended.link != nil {
				t.Errorf("progress %+v, refused %t", p, k.refused)
			}
		})
	}
}

// The lineage of a process ends before init.
func TestLineage(t *testing.T) {
	own := lineage(os.Getpid())
	if len(own) < 2 || own[0] != os.Getpid() || own[1] != os.Getppid() || slices.Contains(own, 1) {
		t.Errorf("%v of process %d, whose parent is %d", own, os.Getpid(), os.Getppid())
	}
	if gone := lineage(1 << 30); len(gone) != 1 {
		t.Errorf("%v of a process that is gone", gone)
	}
}

func TestAcceptingGoesOnAfterAFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listen(path, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	if err = l.SetDeadline(time.Unix(1, 0)); err != nil { // every accept fails
		t.Fatal(err)
	}
	taken, ended := make(chan int32, 1), make(chan struct{})
	go func() {
		defer close(ended)
		accept(l, func(c *net.UnixConn, cred *unix.Ucred) {
			_ = c.Close()
			taken <- cred.Pid
		})
	}()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err = l.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if pid := <-taken; int(pid) != os.Getpid() {
		t.Errorf("process %d connected", pid)
	}
	if err = l.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// A process that holds connections open does not delay the fencing.
func TestSocketsAreNotFlooded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100")
	f.order.Strict, f.order.Deadline = true, Boottime()+int64(time.Hour)
	f.start()
	f.started()
	var open []net.Conn
	for _, name := range []string{workerSocket, controlSocket} {
		for range 100 {
			c, err := net.Dial("unix", filepath.Join(f.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
	}
	f.push(run.Wish{Deadline: Boottime() + int64(200*time.Millisecond)})
	f.stopped()
	for _, c := range open {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	// A place is free again for the agent that comes now.
	_ = f.conn.Close()
	eventually(t, "an agent is let in", func() bool {
		f.dial()
		_, in := <-f.conn.Reports()
		return in
	})
	f.retire()
}

// All losses of a node's ranks are added up, whichever rank was first at a step; one that is no
// number, or too large to be one, is counted and hides no other.
func TestLossesAreAddedUp(t *testing.T) {
	m := assemble(&shared{}, run.Report{})
	told := func(step int64, loss float64) { m.progressed(finished{Step: step, Samples: -1, Loss: &loss}) }
	told(1, 2)
	told(1, 3) // another rank
	told(2, 1e300)
	m.progressed(finished{Step: 3, Samples: -1, BadLoss: true})
	m.progressed(finished{Step: 4, Samples: -1}) // none is told
	told(5, -1)
	if p := m.report.Progress; p.LossSum != 4 || p.Losses != 3 || p.BadLosses != 2 {
		t.Errorf("sum %v of %d losses, %d bad", p.LossSum, p.Losses, p.BadLosses)
	}
}
