package jobspec

import (
	"maps"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cli/flags"
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

// The help of a command shows each field in one group.
func TestEachFieldIsInOneGroup(t *testing.T) {
	t.Parallel()
	in := map[string]int{}
	for _, g := range Groups() {
		for _, name := range g.Names {
			in[name]++
		}
	}
	set := flags.New("run")
	NewFlags(set)
	set.VisitAll(func(f *flags.Flag) {
		if in[f.Name] != 1 {
			t.Errorf("--%s is in %d groups", f.Name, in[f.Name])
		}
	})
}
