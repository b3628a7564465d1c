package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// What a job needs on a node and is not there may be there later: the node looks
// for it as a start does, and says so. What a start does not find out by looking
// is not taken to be there.
func TestWhatAJobNeedsIsToldToBeThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.agent(f.settings("n1"))
	later := func(name string) string { return filepath.Join(f.dir, name) }
	write := func(path, text string, mode os.FileMode) {
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(later("script"), "#!/no/such/interpreter\n", 0o755)
	jobs := map[string]*job{}
	for _, name := range []string{"workdir", "command", "envfile", "interpreter"} {
		jobs[name] = f.job(name, sleeper(), map[string]int{"n1": 1}, "n1")
	}
	jobs["workdir"].Spec.Workdir = later("here")
	jobs["command"].Spec.Command = []string{later("program")}
	jobs["envfile"].Spec.EnvFile = later("secrets")
	jobs["interpreter"].Spec.Command = []string{later("script")}
	for name, j := range jobs {
		f.waiting(j)
		f.start(j)
		failed := ack[record.Failed](f, j, "n1", record.AckFailed)
		if failed.Kind != record.NodeRefused || failed.Missing != (name != "interpreter") {
			t.Errorf("%s: failed %+v", name, failed)
		}
		ack[record.Stopped](f, j, "n1", record.AckStopped)
		f.commit(record.Delete(record.GrantKey("n1", j.Job)))
	}
	cleared := func(name string) string { return record.AckKey("n1", jobs[name].Job, 1, record.AckCleared) }
	f.staysAbsent(cleared("workdir"))
	for name := range jobs {
		if !f.absent(cleared(name)) {
			t.Errorf("%s is cleared, and nothing has changed", name)
		}
	}
	if err := os.Mkdir(later("here"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(later("program"), "#!/bin/sh\n", 0o755)
	write(later("secrets"), "TOKEN=very-secret\n", 0o600)
	for _, name := range []string{"workdir", "command", "envfile"} {
		ack[record.Cleared](f, jobs[name], "n1", record.AckCleared)
	}
	if !f.absent(cleared("interpreter")) {
		t.Error("what only executing tells is cleared by a look")
	}
	if strings.Contains(f.dump(), "very-secret") {
		t.Error("what is in an env file is recorded")
	}
}
