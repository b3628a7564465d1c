package shim

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
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
	path := filepath.Join(f.order.Workdir, "say-"+strconv.Itoa(n))
	agenttest.Write(f.t, path+".tmp", strings.Join(lines, "\n")+"\n", 0o644)
	if err := os.Rename(path+".tmp", path); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) hears(want string) {
	f.t.Helper()
	agenttest.Eventually(f.t, "the worker hears "+want, func() bool {
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
	if disk, err := rundir.ReadReport(f.dir); err != nil || len(disk.Saves) != 1 {
		t.Errorf("on disk: %+v, %v", disk.Saves, err)
	}
}

// A worker can speak before the machine has heard that it was started, and
// nothing of what it says may be lost.
func TestWordsThatComeBeforeTheBirth(t *testing.T) {
	m := testMachine(t, 2)
	s := m.sdk
	k := &link{cred: &unix.Ucred{Pid: int32(os.Getpid())}, lineage: proc.Lineage(os.Getpid()), out: make(chan outgoing, linkQueue), gone: make(chan struct{})}
	s.links[k] = true
	for _, line := range []string{`{"hello":{"version":1,"rank":1,"pid":1}}`, `{"progress":{"step":4,"samples":8}}`, `{"held":{"begun":5}}`} {
		var msg fromWorker
		if err := json.Unmarshal([]byte(line), &msg); err != nil {
			t.Fatal(err)
		}
		s.hear(k, msg)
	}
	s.admitEarly() // another worker's birth changes nothing
	if k.worker != nil || k.refused || m.state.Report.Progress != nil {
		t.Fatalf("worker %v, refused %v, progress %v", k.worker, k.refused, m.state.Report.Progress)
	}
	m.facts.Workers[1].PID = os.Getpid()
	s.admitEarly()
	if w := m.workers[1]; w.link != k || w.fact.Begun == nil || *w.fact.Begun != 5 || m.state.Report.Progress == nil || m.state.Report.Progress.Step != 4 {
		t.Errorf("worker %+v, progress %+v", w, m.state.Report.Progress)
	}
	if m.facts.Workers[1].Link == 0 || len(k.out) > 0 || len(k.early) > 0 {
		t.Errorf("link %d, told %d, %d are left", m.facts.Workers[1].Link, len(k.out), len(k.early))
	}
}

// What the run decides of a rank that connects goes out in that order: a rank that is welcomed before it is held may
// begin a step, and the others may have been told their last one already.
func TestDuringAHaltTheHoldComesBeforeTheWelcome(t *testing.T) {
	for halted, want := range map[bool][]string{false: {"welcome"}, true: {"hold", "welcome"}} {
		m := testMachine(t, 1)
		m.facts.Workers[0].PID, m.facts.Execution.Done = os.Getpid(), true
		if halted {
			m.wished(run.Wish{Halt: &record.Halt{Save: true}})
		}
		m.step()
		s := m.sdk
		k := &link{cred: &unix.Ucred{Pid: int32(os.Getpid())}, lineage: proc.Lineage(os.Getpid()), out: make(chan outgoing, linkQueue), gone: make(chan struct{})}
		s.links[k] = true
		var msg fromWorker
		if err := json.Unmarshal([]byte(hello), &msg); err != nil {
			t.Fatal(err)
		}
		s.hear(k, msg)
		m.step()
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
		if !slices.Equal(told, want) {
			t.Errorf("halted %v: told %v, want %v", halted, told, want)
		}
	}
}

// A worker's socket is for that worker only: a stranger of the same user is refused.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "sleep 100").start()
	f.started()
	c, err := net.Dial("unix", filepath.Join(f.dir, run.WorkerSocket))
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
			m := testMachine(t, 1)
			ended := m.workers[0]
			ended.fact.PID, ended.fact.Exit = 77, &record.Exit{}
			k := &link{cred: &unix.Ucred{Pid: int32(c.lineage[0])}, lineage: c.lineage, out: make(chan outgoing, linkQueue)} //nolint:gosec // a small number
			for _, line := range []string{hello, `{"progress":{"step":4}}`} {
				var msg fromWorker
				if err := json.Unmarshal([]byte(line), &msg); err != nil {
					t.Fatal(err)
				}
				m.sdk.hear(k, msg)
			}
			if p := m.state.Report.Progress; (p != nil && p.Step == 4) != c.heard || k.refused == c.heard || ended.link != nil {
				t.Errorf("progress %+v, refused %t", p, k.refused)
			}
		})
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
	f.order.Strict, f.order.Deadline = true, proc.Boottime()+int64(time.Hour)
	f.start()
	f.started()
	var open []net.Conn
	for _, name := range []string{run.WorkerSocket, rundir.ControlSocket} {
		for range 100 {
			c, err := net.Dial("unix", filepath.Join(f.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
	}
	f.push(run.Wish{Deadline: proc.Boottime() + int64(200*time.Millisecond)})
	f.stopped()
	for _, c := range open {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	// A place is free again for the agent that comes now.
	_ = f.conn.Close()
	agenttest.Eventually(t, "an agent is let in", func() bool {
		f.dial()
		_, in := <-f.conn.Reports()
		return in
	})
	f.retire()
}
