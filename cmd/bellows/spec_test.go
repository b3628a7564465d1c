package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func TestDefaultName(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"python train.py --lr 1":         "train",
		"/usr/bin/python3.12 -u a/b.py":  "b",
		"python -m pkg.sub.train":        "train",
		"python -c print()":              "python",
		"./run.sh":                       "run",
		"bash my_script.v2.sh":           "my_script.v2",
		"/opt/größe":                     "gr--e",
		"...":                            "job",
		"python ../Fine Tune.py":         "Fine",
		"x" + strings.Repeat("y", 100):   "x" + strings.Repeat("y", 62),
		"python -W ignore unknowable.py": "python",
	} {
		if got := defaultName(strings.Fields(command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		} else if err := cluster.CheckName(got); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestJobEnvironmentTakesWhatFindsTheInterpreter(t *testing.T) {
	t.Parallel()
	environ := []string{
		"PATH=/bin", "HOME=/h", "VIRTUAL_ENV=/v", "CONDA_PREFIX=/c", "LD_LIBRARY_PATH=/l", "PYTHONPATH=/p", "SECRET=x", "TERM=t", "A=1=2",
	}
	got, err := jobEnvironment(environ, []string{"A", "B=x=y", "PATH=/mine", "EMPTY="})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"PATH": "/mine", "HOME": "/h", "VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "LD_LIBRARY_PATH": "/l", "PYTHONPATH": "/p",
		"A": "1=2", "B": "x=y", "EMPTY": "",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestMarksOfADevClustersProcesses(t *testing.T) {
	t.Parallel()
	const dir = "/d/dev"
	for _, c := range []struct {
		name          string
		environ, args []string
		want          devProcess
		ok            bool
	}{
		{"agent", []string{"BELLOWS_DEV=/d/dev", "BELLOWS_DEV_NODE=n1"}, []string{"bellows", "agent", "--node", "n1"}, devProcess{node: "n1", child: true}, true},
		{"coordinator", []string{"BELLOWS_DEV=/d/dev", "BELLOWS_DEV_NODE="}, []string{"bellows", "coordinator"}, devProcess{child: true}, true},
		{"shim", nil, []string{"bellows", "shim", "--dir", "/d/dev/run/n2/train-g1"}, devProcess{node: "n2"}, true},
		{"worker", []string{"BELLOWS_WORKER_SOCKET=/d/dev/run/n3/x/worker.sock"}, []string{"python"}, devProcess{node: "n3"}, true},
		{"another cluster's agent", []string{"BELLOWS_DEV=/d/dev2", "BELLOWS_DEV_NODE=n1"}, []string{"bellows", "agent"}, devProcess{}, false},
		{"another cluster's shim", nil, []string{"bellows", "shim", "--dir", "/d/dev2/run/n2/x"}, devProcess{}, false},
		{"another cluster's worker", []string{"BELLOWS_WORKER_SOCKET=/d/dev/runs/n3/x"}, []string{"python"}, devProcess{}, false},
		{"a passer-by", []string{"PATH=/bin"}, []string{"sh"}, devProcess{}, false},
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
	for i := range maxDevNodes {
		text := portRange("/home/ann/.local/state/bellows/dev", i)
		p, err := parsePorts(text)
		if err != nil || p.First < 10000 || p.First+p.Count > 32768 || seen[text] {
			t.Errorf("node %d: %s, %v", i, text, err)
		}
		seen[text] = true
	}
}
