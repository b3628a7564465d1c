package dev

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cli/settings"
)

func TestMarksOfADevClustersProcesses(t *testing.T) {
	t.Parallel()
	const dir = "/d/dev"
	for _, c := range []struct {
		name          string
		environ, args []string
		want          Process
		ok            bool
	}{
		{"agent", []string{"BELLOWS_DEV=/d/dev", "BELLOWS_DEV_NODE=n1"}, []string{"bellows", "agent", "--node", "n1"}, Process{node: "n1", child: true}, true},
		{"coordinator", []string{"BELLOWS_DEV=/d/dev", "BELLOWS_DEV_NODE="}, []string{"bellows", "coordinator"}, Process{child: true}, true},
		{"shim", nil, []string{"bellows", "shim", "--dir", "/d/dev/run/n2/train-g1"}, Process{node: "n2"}, true},
		{"worker", []string{"BELLOWS_WORKER_SOCKET=/d/dev/run/n3/x/worker.sock"}, []string{"python"}, Process{node: "n3"}, true},
		{"another cluster's agent", []string{"BELLOWS_DEV=/d/dev2", "BELLOWS_DEV_NODE=n1"}, []string{"bellows", "agent"}, Process{}, false},
		{"another cluster's shim", nil, []string{"bellows", "shim", "--dir", "/d/dev2/run/n2/x"}, Process{}, false},
		{"another cluster's worker", []string{"BELLOWS_WORKER_SOCKET=/d/dev/runs/n3/x"}, []string{"python"}, Process{}, false},
		{"an unrelated process", []string{"PATH=/bin"}, []string{"sh"}, Process{}, false},
	} {
		got, ok := markOf(c.environ, c.args, dir)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v %t, want %+v %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestBriefShowsWarningsAndWhatIsNoRecord(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{`{"level":"info","message":"fine"}`, ""},
		{`{"level":"warn","node":"n1","time":1,"message":"lost etcd","error":"gone"}`, "warn: lost etcd error=gone node=n1"},
		{"panic: \x1b[31mboom", "panic: [31mboom"},
	} {
		if got, loud := brief([]byte(c[0])); got != c[1] || loud != (c[1] != "") {
			t.Errorf("%s: %q %t, want %q", c[0], got, loud, c[1])
		}
	}
}

func TestPortRangesOfNodesDoNotMeet(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range maxNodes {
		text := portRange("/home/ann/.local/state/bellows/dev", i)
		p, err := settings.ParsePorts(text)
		if err != nil || p.First < 10000 || p.First+p.Count > 32768 || seen[text] {
			t.Errorf("node %d: %s, %v", i, text, err)
		}
		seen[text] = true
	}
}

// Another program that has etcd's usual port, or takes it at the last moment, costs a line
// of text. A port that was asked for is used or refused.
func TestEtcdTakesAnotherPort(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken := other.Addr().(*net.TCPAddr).Port
	for _, asked := range []int{0, taken} {
		var said strings.Builder
		s := newSupervisor(Options{EtcdPort: asked}, layout{dir: t.TempDir()})
		s.msg = &said
		s.etcd, err = s.etcdAt(t.Context(), taken, zerolog.Nop())
		if asked != 0 {
			if !errors.Is(err, syscall.EADDRINUSE) || said.Len() > 0 {
				t.Errorf("asked for a port that is taken: %v, said %q", err, &said)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("port %d is taken: etcd answers at %s\n", taken, s.etcd.Endpoint()); said.String() != want {
			t.Errorf("said %q, want %q", &said, want)
		}
		if err := s.stopEtcd(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
