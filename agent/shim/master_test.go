package shim

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/warm"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
)

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
	if err := durable.WriteJSON(f.order.LearnedFile, warm.Learned{Version: run.ProtocolVersion, Meets: true}); err != nil {
		t.Fatal(err)
	}
	f.order.World.Members = []cluster.Member{{Node: "n0", Devices: []cluster.DeviceID{"far"}}, {Node: "n1", FirstRank: 1, Devices: []cluster.DeviceID{"SIM-0"}}}
	other := f.order
	if other.Node = "n0"; precheck.MeetAtCheckpoint(t.Context(), other) != nil {
		t.Fatal("rank 0's node cannot make the checkpoint's directory")
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(at.Host), Port: at.Port})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err = l.SetDeadline(time.Now().Add(agenttest.Patience)); err != nil {
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
	agenttest.Eventually(t, "it is kept", func() bool { return warm.ReadLearned(f.order.LearnedFile).Meets })
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
