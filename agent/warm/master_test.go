package warm

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/durable"
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
		if err := durable.WriteJSON(path, Learned{Version: run.ProtocolVersion, Meets: c.meets}); err != nil {
			t.Fatal(err)
		}
		r := Release{Order: run.Order{World: c.world, LearnedFile: path}}
		if got := r.meetsFirst(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// It returns as soon as something listens, and without that when its time is over.
func TestTheMasterIsAwaited(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := cluster.Endpoint{Host: "127.0.0.1", Port: free.Addr().(*net.TCPAddr).Port}
	if err = free.Close(); err != nil {
		t.Fatal(err)
	}
	awaitMaster(t.Context(), at, 5*time.Millisecond)
	met := make(chan bool)
	go func() {
		awaitMaster(t.Context(), at, agenttest.Patience)
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
	if err = durable.WriteJSON(path, Learned{Version: run.ProtocolVersion, Meets: true}); err != nil {
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
		r := Release{Order: order, FirstRank: c.first}
		if err := r.LetGo(abort, all); err != nil {
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
func speakers(t *testing.T, n int, meets bool) (all []*Parked, let func() int) {
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
		all, ends = append(all, &Parked{conn: conn, meets: meets}), append(ends, pair[1])
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
