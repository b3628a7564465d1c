package shim

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

func TestWhereWorkersMeet(t *testing.T) {
	for line, want := range map[string]bool{
		"  0: 0100007F:72D8 00000000:0000 0A 0 0":                       true,                                 // listens
		"  1: 0100007F:C001 0100007F:72D8 01 0 0":                       true,                                 // is connected to it
		"  2: 0100007F:72D8 0100007F:C001 01 0 0":                       false,                                // one that it has taken in
		"  3: 0100007F:C001 0100007F:72D8 06 0 0":                       false,                                // was
		"  4: 00000000000000000000000001000000:72D8 00000000:0000 0A 0": true,                                 // IPv6
		"  5: 0100007F:72D9 00000000:0000 0A 0 0":                       false,                                // another port
		"sl  local_address rem_address   st tx_queue":                   false, "": false, "6: x y 0A": false, // no such line
	} {
		if got := meetsIn(line, 0x72d8); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if !meetAt(port) {
		t.Errorf("port %d: nothing is seen to listen", port)
	}
	if err = l.Close(); err != nil {
		t.Fatal(err)
	}
	if meetAt(port) {
		t.Errorf("port %d: something is seen to listen", port)
	}
}

func TestWorldsThatMeet(t *testing.T) {
	two := cluster.World{
		Members: []cluster.Member{{Node: "n1", Devices: []cluster.DeviceID{"a"}}, {Node: "n2", FirstRank: 1, Devices: []cluster.DeviceID{"b"}}},
		Master:  cluster.Endpoint{Host: "127.0.0.1", Port: 29400},
	}
	one := two
	one.Members = two.Members[:1]
	for name, c := range map[string]struct {
		meets bool
		world cluster.World
		want  bool
	}{
		"two": {true, two, true}, "one": {true, one, false}, "seen elsewhere": {false, two, false},
	} {
		path := filepath.Join(t.TempDir(), "learned")
		if err := writeDurable(path, learned{Version: run.ProtocolVersion, Meets: c.meets}); err != nil {
			t.Fatal(err)
		}
		s := starter{shared: &shared{order: run.Order{World: c.world, LearnedFile: path}}}
		if got := s.meetsFirst(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// It returns as soon as something listens, and without that when its time is over.
func TestTheMasterIsAwaited(t *testing.T) {
	t.Parallel()
	at := cluster.Endpoint{Host: "127.0.0.1", Port: freePort(t)}
	awaitMaster(t.Context(), at, 5*time.Millisecond)
	met := make(chan bool)
	go func() {
		awaitMaster(t.Context(), at, patience)
		close(met)
	}()
	select {
	case <-met:
		t.Fatal("nothing listens yet")
	case <-time.After(20 * time.Millisecond): // some refusals; more or fewer change nothing
	}
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	<-met
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said, err := io.ReadAll(c); err != nil || len(said) > 0 {
		t.Errorf("it said %q, %v", said, err)
	}
}

// asked tells of each question for its deadline, which is the first that is asked of a context.
type asked struct {
	context.Context
	tell func()
}

func (a asked) Deadline() (time.Time, bool) {
	a.tell()
	return a.Context.Deadline()
}

// Rank 0 goes on before the others wait for it, wherever it is; where no framework is loaded none waits.
func TestRank0IsLetFirst(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := filepath.Join(t.TempDir(), "learned")
	if err = writeDurable(path, learned{Version: run.ProtocolVersion, Meets: true}); err != nil {
		t.Fatal(err)
	}
	order := run.Order{LearnedFile: path, World: cluster.World{
		Members: []cluster.Member{{Node: "n1", Devices: []cluster.DeviceID{"a", "b", "c"}}},
		Master:  cluster.Endpoint{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port},
	}}
	for _, c := range []struct {
		first  int
		meets  bool
		before []int // how many were let go before each wait
	}{{0, true, []int{1}}, {1, true, []int{0}}, {4, true, []int{0}}, {1, false, nil}} {
		all, let := speakers(t, 3, c.meets)
		var before []int
		abort := asked{t.Context(), func() { before = append(before, let()) }}
		s := starter{shared: &shared{order: order, member: cluster.Member{FirstRank: c.first}, abort: abort}}
		if err := s.letGo(all); err != nil {
			t.Error(err)
		}
		after := let()
		for _, n := range before {
			after += n
		}
		if !slices.Equal(before, c.before) || after != 3 {
			t.Errorf("first rank %d: let before waits %v, want %v; %d in all", c.first, before, c.before, after)
		}
	}
}

// speakers are parked processes, as far as they are spoken to; let is how many were let go since it was last asked.
func speakers(t *testing.T, n int, meets bool) (all []*parked, let func() int) {
	t.Helper()
	var ends []int
	for range n {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := connOf(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(); _ = unix.Close(pair[1]) })
		all, ends = append(all, &parked{conn: conn, meets: meets}), append(ends, pair[1])
	}
	return all, func() (let int) {
		for _, fd := range ends {
			b := make([]byte, 8)
			if size, err := unix.Read(fd, b); err == nil && string(b[:size]) == "go\x00\x00" {
				let++
			}
		}
		return let
	}
}

// meetsScript has a framework, and meets at MASTER_PORT.
const meetsScript = `
import os, socket, sys, types
sys.modules["jax._src.distributed"] = types.ModuleType("jax._src.distributed")
s = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
s.sendall(b"rank " + os.environ["RANK"].encode())
s.close()
`

// A parked worker of a job whose workers meet is let once something listens there.
func TestParkedRanksWaitForRank0(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript(meetsScript)
	at := f.order.World.Master
	if err := writeDurable(f.order.LearnedFile, learned{Version: run.ProtocolVersion, Meets: true}); err != nil {
		t.Fatal(err)
	}
	f.order.World.Members = []cluster.Member{{Node: "n0", Devices: []cluster.DeviceID{"far"}}, {Node: "n1", FirstRank: 1, Devices: []cluster.DeviceID{"SIM-0"}}}
	other := f.order
	if other.Node = "n0"; meetAtCheckpoint(t.Context(), other) != nil {
		t.Fatal("rank 0's node cannot make the checkpoint's directory")
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(at.Host), Port: at.Port})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err = l.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	plan := f.prepares(func(*run.Prepare) {})
	f.ready(1)
	f.bind(plan)
	f.push(run.Wish{Start: true})
	for i, want := range []string{"", "rank 1"} {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(c)
		_ = c.Close()
		if err != nil || string(said) != want {
			t.Fatalf("connection %d said %q, %v", i, said, err)
		}
	}
	if r := f.stopped(); !r.Warm || !r.Stopped.Finished {
		t.Errorf("report %+v", r)
	}
	f.retire()
}

// That workers meet is seen, and kept.
func TestThatWorkersMeetIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript("import colorsys, os, socket, time\ns = socket.create_server((\"127.0.0.1\", int(os.environ[\"MASTER_PORT\"])))\ntime.sleep(1000)\n")
	f.start().started()
	eventually(t, "it is kept", func() bool { return readLearned(f.order.LearnedFile).Meets })
	f.push(run.Wish{Kill: "test"})
	f.stopped()
	f.retire()
}

// A worker of a job with warm starts leaves after its exit handlers where nothing would be seen of a teardown, also
// if nothing was prepared; everything else is torn down as without. A function that C calls at an exit aborts, to tell.
func TestWorkersLeaveAtOnceWhereNothingIsSeen(t *testing.T) {
	t.Parallel()
	const begin = `
import atexit, ctypes, os, sys
libc = ctypes.CDLL(None)
libc.on_exit(libc.abort, None)
class Torn:
    def __del__(self): os.write(1, b"torn down\n")
def suspended():
    try: yield 1
    finally: os.write(1, b"torn down\n")
atexit.register(os.write, 1, b"exit handler\n")
sys.stdout.write("not flushed")
`
	for name, c := range map[string]struct {
		script       string
		atOnce, torn bool
	}{
		"nothing":            {script: "", atOnce: true},
		"the module bellows": {script: "import bellows\nassert bellows._run.link is not None\n", atOnce: true},
		"finalizer":          {script: "kept = Torn()\n", torn: true},
		"finalizer in cycle": {script: "class A: pass\na = A(); a.a = a; a.torn = Torn()\n", torn: true},
		"generator":          {script: "g = suspended()\nnext(g)\n", torn: true},
		"file":               {script: "f = open('out', 'w')\nf.write('kept back')\n"},
		"asks to exit":       {script: "sys.exit(0)\n"},
		"exception":          {script: "raise ValueError(1)\n"},
		"daemon thread":      {script: "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"},
	} {
		for _, warm := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, warm starts %v", name, warm), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, 1, "")
				f.pyScript(begin + c.script)
				f.order.Env["PYTHONUNBUFFERED"] = ""
				if !warm {
					f.order.LearnedFile = ""
				}
				r := f.start().stopped()
				if atOnce := len(r.Stopped.Exits) == 1 && r.Stopped.Exits[0].Signal == 0; atOnce != (warm && c.atOnce) {
					t.Errorf("it left at once: %v; exits %+v", atOnce, r.Stopped.Exits)
				}
				f.retire()
				log := f.read("logs", "rank-0.log")
				if !strings.Contains(log, "exit handler\n") || !strings.Contains(log, "not flushed") || strings.Contains(log, "torn down") != c.torn {
					t.Errorf("log:\n%s", log)
				}
				if name == "file" && f.read("work", "out") != "kept back" {
					t.Errorf("what it has kept back: %q", f.read("work", "out"))
				}
			})
		}
	}
}
