package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// fakeProc is a /proc of processes that do not exist.
type fakeProc struct {
	t   *testing.T
	Dir string
}

func NewFakeProc(t *testing.T) fakeProc { return fakeProc{t, t.TempDir()} }

func (f fakeProc) observer() *observer { return newObserver(proc.FS(f.Dir)) }

// add makes a process with that environment.
func (f fakeProc) add(pid int, environment ...string) {
	f.t.Helper()
	if err := os.Mkdir(f.path(pid, ""), 0o755); err != nil {
		f.t.Fatal(err)
	}
	agenttest.Write(f.t, f.path(pid, "stat"), fmt.Sprintf("%d (x) S 1 %s", pid, strings.Repeat("1 ", 30)), 0o644)
	agenttest.Write(f.t, f.path(pid, "cmdline"), "x\x00", 0o644)
	agenttest.Write(f.t, f.path(pid, "environ"), strings.Join(append(environment, ""), "\x00"), 0o644)
}

// runsAs tells whom a process runs as.
func (f fakeProc) runsAs(pid, uid int) {
	f.t.Helper()
	agenttest.Write(f.t, f.path(pid, "status"), fmt.Sprintf("Name:\tx\nUid:\t%d\t0\t0\t0\n", uid), 0o644)
}

func (f fakeProc) path(pid int, name string) string {
	return filepath.Join(f.Dir, strconv.Itoa(pid), name)
}

// hangs makes a process whose environment cannot be read: one who opens it waits
// until answer is called.
func (f fakeProc) hangs(pid int) (answer func()) {
	f.t.Helper()
	f.add(pid)
	path := f.path(pid, "environ")
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o644)); err != nil {
		f.t.Fatal(err)
	}
	answer = sync.OnceFunc(func() {
		w, err := os.OpenFile(path, os.O_RDWR, 0) // which waits for no reader
		if err != nil {
			f.t.Error(err)
			return
		}
		f.t.Cleanup(func() { _ = w.Close() })
		if err := os.Remove(path); err != nil { // for those who come later
			f.t.Error(err)
		}
		agenttest.Write(f.t, path, "answered=1\x00", 0o644)
		time.AfterFunc(time.Second, func() { _ = w.Close() }) // the readers see the end
	})
	f.t.Cleanup(answer)
	return answer
}

func mark(dir string) string { return run.SocketVariable + "=" + filepath.Join(dir, run.WorkerSocket) }

func (f fakeProc) census(o *observer) *census {
	f.t.Helper()
	c, err := o.census()
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// unfinished is how many reads have not ended.
func (o *observer) unfinished() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.reads)
}

// A process in state D whose memory is locked keeps a reader for ever. It holds up
// nothing but what is known of itself, and is not taken for one that shows nothing.
func TestAProcessThatCannotBeReadIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := NewFakeProc(t)
	const stuck = 5000
	answer := f.hangs(stuck)
	for pid := stuck + 1; pid < stuck+20; pid++ {
		f.add(pid, "A=1", mark("/runs/a"))
	}
	o := f.observer()
	for range 3 {
		c := f.census(o)
		if n := len(c.marked("/runs/a", nil)); n != 19 {
			t.Errorf("%d processes are marked, want 19", n)
		}
		if err := c.shows[stuck].err; !errors.Is(err, ErrNoAnswer) {
			t.Errorf("what the stuck one shows: %v", err)
		}
		if err := c.unanswered(); err == nil || !strings.Contains(err.Error(), "pid 5000") {
			t.Errorf("unanswered: %v", err)
		}
		if n := o.unfinished(); n != 1 {
			t.Errorf("%d reads are unfinished: it was asked again while it did not answer", n)
		}
	}
	answer()
	agenttest.Eventually(t, "it answers", func() bool { return f.census(o).unanswered() == nil })
}

// Many processes that hang keep the others from being read no more than one does.
func TestManyThatCannotBeReadDoNotHideTheRest(t *testing.T) {
	t.Parallel()
	f := NewFakeProc(t)
	const stuck = 5 * readersAtOnce
	for pid := 1000; pid < 1000+stuck; pid++ {
		f.hangs(pid)
	}
	f.add(5000, mark("/runs/a"))
	if c := f.census(f.observer()); len(c.marked("/runs/a", nil)) != 1 {
		t.Errorf("what the last one shows: %+v", c.shows[5000])
	}
}

// Each read that does not end takes a thread: there are not more than so many.
func TestReadsThatDoNotEndAreBounded(t *testing.T) {
	t.Parallel()
	f := NewFakeProc(t)
	for pid := 1000; pid < 1000+maxReads+20; pid++ {
		f.hangs(pid)
	}
	o := f.observer()
	for range 2 {
		c := f.census(o)
		if n := o.unfinished(); n != maxReads {
			t.Errorf("%d reads are unfinished, want %d", n, maxReads)
		}
		for pid, s := range c.shows {
			if s.err == nil {
				t.Errorf("process %d is taken for one that shows nothing", pid)
			}
		}
	}
}

// One user's processes that hang leave places for those of others, the agent's among them.
func TestAUsersUnfinishedReadsAreBounded(t *testing.T) {
	t.Parallel()
	f := NewFakeProc(t)
	own := os.Geteuid()
	hostile, other := own+1000, own+1001
	for pid := 1000; pid < 1000+maxReads; pid++ {
		f.hangs(pid)
		f.runsAs(pid, hostile)
	}
	o := f.observer()
	f.census(o)
	if n := o.unfinished(); n != maxReadsOfUser {
		t.Errorf("%d reads of one user are unfinished, want %d", n, maxReadsOfUser)
	}
	f.add(5000, mark("/runs/a"))
	f.runsAs(5000, other)
	f.add(5001, mark("/runs/a"))
	f.runsAs(5001, own)
	f.add(5002, mark("/runs/a"))
	f.runsAs(5002, hostile)
	c := f.census(o)
	for pid, read := range map[int]bool{5000: true, 5001: true, 5002: false} {
		if s := c.shows[pid]; (s.err == nil) != read || (len(s.names) == 1) != read {
			t.Errorf("process %d shows %+v, want it read: %t", pid, s, read)
		}
	}
	for pid := 6000; pid < 6000+2*maxReadsOfUser; pid++ { // an agent's own share is all of it
		f.hangs(pid)
		f.runsAs(pid, own)
	}
	f.census(o)
	if n := o.unfinished(); n != 3*maxReadsOfUser {
		t.Errorf("%d reads are unfinished, want %d", n, 3*maxReadsOfUser)
	}
}

// Who kills what its environment tells of learns that a process could not be read.
func TestAKillThatDidNotSeeAllSaysSo(t *testing.T) {
	t.Parallel()
	f := NewFakeProc(t)
	f.add(5000)
	o := f.observer()
	reach := Reach{dir: "/runs/a"}
	if err := reach.killMarked(o); err != nil {
		t.Errorf("all could be read: %v", err)
	}
	f.hangs(5001)
	if err := reach.killMarked(o); !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "pid 5001") {
		t.Errorf("one could not be read: %v", err)
	}
}

// However many ask at the same time, each process is read twice at most: for those
// that have asked before the first read began, and for those that have asked since.
func TestManyShareALook(t *testing.T) {
	t.Parallel()
	f := NewFakeProc(t)
	f.add(5000, mark("/runs/a"))
	synctest.Test(t, func(t *testing.T) {
		o := f.observer()
		var looks atomic.Int32
		begun, goOn := make(chan struct{}, 100), make(chan struct{})
		take := o.censuses.find
		o.censuses.find = func() (*census, error) {
			looks.Add(1)
			c, err := take()
			begun <- struct{}{}
			<-goOn
			return c, err
		}
		const many = 100
		var asked sync.WaitGroup
		ask := func(run string) {
			asked.Go(func() {
				if c, err := o.census(); err != nil || len(c.marked(run, nil)) != 1 {
					t.Errorf("a census that was begun before it was asked for: %v, %v", c, err)
				}
			})
		}
		ask("/runs/a")
		<-begun
		f.add(5001, mark("/runs/b")) // after the first look has begun
		for range many {
			ask("/runs/b")
		}
		synctest.Wait() // all of them wait
		close(goOn)
		asked.Wait()
		if n := looks.Load(); n != 2 {
			t.Errorf("%d looks for one who asked and %d who asked meanwhile, want 2", n, many)
		}
	})
}

// endless is an environment without end, as of a process that says that all of its
// memory is one.
type endless struct {
	read int64
	most int // in one call
}

func (e *endless) Read(p []byte) (int, error) {
	e.most = max(e.most, len(p))
	const entry = "x=a value as long as those of common variables\x00"
	for n := 0; n < len(p); {
		written := copy(p[n:], entry[e.read%int64(len(entry)):])
		n, e.read = n+written, e.read+int64(written)
	}
	return len(p), nil
}

// A process can show anything, and as much as it likes.
func TestWhatAProcessShowsIsBounded(t *testing.T) {
	t.Parallel()
	memory := &endless{}
	if _, err := namesIn(io.LimitReader(memory, maxShown)); err != nil || memory.read != maxShown || memory.most > 64<<10 {
		t.Errorf("%d bytes were read, %d at once, %v", memory.read, memory.most, err)
	}
	f := NewFakeProc(t)
	f.add(5000)
	big, err := os.OpenFile(f.path(5000, "environ"), os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = io.Copy(big, io.LimitReader(&endless{}, maxShown))
	}
	if err == nil {
		_, err = big.WriteString("\x00" + mark("/runs/behind") + "\x00")
	}
	if err = errors.Join(err, big.Close()); err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 10 * maxNames {
		many = append(many, mark(fmt.Sprintf("/runs/%d", i)))
	}
	f.add(5001, many...)
	f.add(5002, strings.Repeat("long", 10<<10)+mark("/runs/inside"), mark("/runs/a"), mark("/runs/a"), "X"+mark("/runs/x"), mark("runs/relative"),
		run.SocketVariable+"=/runs/../runs/detour/"+run.WorkerSocket, run.SocketVariable+"=/runs/other.sock", strings.Repeat("tail", 10<<10))
	agenttest.Write(t, f.path(5002, "cmdline"), "x\x00shim\x00--dir\x00"+strings.Repeat("/x", maxCommandLine), 0o644)
	c := f.census(f.observer())
	if names := c.shows[5000].names; len(names) > 0 {
		t.Errorf("names behind %d bytes: %v", maxShown, names)
	}
	if names := c.shows[5001].names; len(names) != maxNames {
		t.Errorf("%d names of one process, want %d", len(names), maxNames)
	}
	if s := c.shows[5002]; !slices.Equal(s.names, []string{"/runs/a"}) || s.err != nil || len(s.hosts) > maxCommandLine {
		t.Errorf("shows %.200v", s)
	}
	if below := c.runsBelow("/runs"); len(below) != maxNames+1 {
		t.Errorf("runs below: %v", below)
	}
}

func TestNamesInAnEnvironment(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "[]",
		mark("/r/a"):                           "[/r/a]", // the end may be cut
		mark("/r/a") + "\x00":                  "[/r/a]",
		"A=1\x00" + mark("/r/a") + "\x00B=2":   "[/r/a]",
		mark("/r/a") + "\x00" + mark("/r/b"):   "[/r/a /r/b]",
		"\x00\x00" + mark("/r/a") + "\x00\x00": "[/r/a]",
		"A=" + mark("/r/a"):                    "[]",
	} {
		if names, err := namesIn(bytes.NewReader([]byte(text))); err != nil || fmt.Sprint(names) != want {
			t.Errorf("%q: %v, %v, want %s", text, names, err, want)
		}
	}
}

// What a run's own sweep cannot read keeps it from being over, unless it is another
// user's, older than the run, or known to be the run's.
func TestWhatCannotBeReadIsUnknown(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t)
	dir := t.TempDir()
	const daemon = 1
	p, err := proc.ReadStat(agenttest.Bearing(t, dir, daemon))
	if err != nil {
		t.Fatal(err)
	}
	c := &census{listing: &listing{procs: []proc.Stat{p}, family: proc.FamilyOf(nil)}, shows: map[int]shown{p.PID: {err: ErrNoAnswer}}}
	owner, other := uint32(daemon), uint32(4711)
	for name, s := range map[string]struct {
		sweeper
		known []proc.Stat
		want  bool
	}{
		"an owner's":         {sweeper{owner: &owner}, nil, true},
		"an unknown owner's": {sweeper{}, nil, true},
		"another user's":     {sweeper{owner: &other}, nil, false},
		"older":              {sweeper{owner: &owner, shim: run.Process{BootID: proc.BootID(), StartTime: p.Start + 1}}, nil, false},
		"known":              {sweeper{owner: &owner}, []proc.Stat{p}, false},
		"another is known":   {sweeper{owner: &owner}, []proc.Stat{{PID: p.PID, Start: p.Start - 1}}, true},
	} {
		s.seen = c
		err := s.hidden(s.known)
		if (err != nil) != s.want || err != nil && !strings.Contains(err.Error(), "does not show whether it belongs to the run") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shim that looks for what holds its locks knows as much of its run as any sweep.
func TestAnOlderProcessDoesNotKeepAShimsLocks(t *testing.T) {
	t.Parallel()
	agenttest.NeedsRoot(t)
	dir := t.TempDir()
	const daemon = 1
	p, err := proc.ReadStat(agenttest.Bearing(t, dir, daemon))
	if err != nil {
		t.Fatal(err)
	}
	c := &census{listing: &listing{procs: []proc.Stat{p}, family: proc.FamilyOf(nil)}, shows: map[int]shown{p.PID: {err: ErrNoAnswer}}}
	for name, s := range map[string]struct {
		begun     uint64
		contained bool
		want      bool
	}{
		"a process of the run's time":                      {p.Start, false, false},
		"one that is older than the run":                   {p.Start + 1, false, true},
		"one outside of a group that holds all of the run": {p.Start, true, true},
	} {
		shim := run.Process{PID: os.Getpid(), StartTime: s.begun, BootID: proc.BootID()}
		sweeper := Outside{Dir: dir, Owner: daemon, Shim: shim, Contained: s.contained}.sweeper()
		sweeper.seen = c
		if sweeper.nothingHidden() != s.want {
			t.Errorf("%s: %t", name, !s.want)
		}
	}
}
