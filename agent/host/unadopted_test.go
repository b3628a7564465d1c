package host

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/rundir"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// feign starts a process with the command line of a shim that hosts a directory.
// It ends when it is killed.
func (f *fixture) feign(dir string) (ended chan struct{}) {
	f.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Args, cmd.Dir = []string{"x", "shim", "--dir", dir}, f.TempDir()
	write(f, filepath.Join(cmd.Dir, "shim"), "touch up; while :; do sleep 1; done")
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	f.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	f.until("the feigned shim", func() bool {
		_, err := os.Stat(filepath.Join(cmd.Dir, "up"))
		return err == nil
	})
	return ended
}

func write(f *fixture, path, text string) {
	f.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// What a process says of itself, and a copy of a run's directory that has suffered,
// harm no run that is in good hands, and remove nothing.
func TestAnUnadoptedRunHarmsNoOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.settings("n1")
	stop := f.agent(s)
	j := f.job("live", nested(), map[string]int{"n1": 1}, "n1")
	f.start(j)
	ack[record.Started](f, j, "n1", record.AckStarted)
	child := f.child(1)
	stop()
	root := filepath.Join(s.Dir, "r")
	runs, _, err := rundir.Scan(root)
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	dir := runs[0].Dir
	foreign, backup, worn := filepath.Join(root, "foreign"), filepath.Join(root, "backup"), filepath.Join(root, "worn")
	if err = os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	write(f, filepath.Join(foreign, "mine"), "precious")
	for _, to := range []string{backup, worn} {
		if out, errCopy := exec.Command("cp", "-a", dir, to).CombinedOutput(); errCopy != nil {
			t.Fatalf("copy: %s, %v", out, errCopy)
		}
	}
	err = errors.Join(os.Truncate(filepath.Join(backup, "order.json"), 10), os.Truncate(filepath.Join(worn, "shim.json"), 10))
	if err != nil {
		t.Fatal(err)
	}
	f.feign(root + "//" + filepath.Base(dir))
	f.feign(root + "/..")
	killed := f.feign(foreign)
	log := f.logged(s)
	f.until("the unadopted' end", func() bool {
		return strings.Count(log.String(), "left alone") == 2 && strings.Contains(log.String(), "nothing lives any more of a run")
	})
	<-killed
	f.commit(record.Delete(record.PermitKey(j.Job, 1)))
	ack[record.Stopped](f, j, "n1", record.AckStopped)
	failed := f.absent(record.AckKey("n1", j.Job, 1, record.AckFailed))
	if !failed || lives(child) || strings.Count(log.String(), "are killed") != 1 || strings.Contains(log.String(), "is killed") {
		t.Errorf("none failed: %t, its child lives: %t, log:\n%s", failed, lives(child), log)
	}
	for _, path := range []string{filepath.Join(foreign, "mine"), filepath.Join(backup, "shim.json"), filepath.Join(worn, "order.json")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(os.RemoveAll(backup), os.RemoveAll(worn)); err != nil { // or the test's end sweeps them
		t.Error(err)
	}
}

// A directory that no agent has made keeps no other generation from being over.
func TestAnUnadoptedRunHoldsUpItsOwnGenerationOnly(t *testing.T) {
	t.Parallel()
	jg, second := generationOf("train-aaaaaa", 2), generationOf("train-aaaaaa", 3)
	plan := record.Plan{World: cluster.World{Job: jg.Job, Generation: jg.Generation, Nonce: "11112222"}}
	for _, c := range []struct {
		name          string
		of            record.JobGen
		planned, free bool
	}{
		{"made-up", record.JobGen{}, true, true},
		{"made-up", record.JobGen{}, false, true},
		{"own", record.JobGen{}, true, false},
		{"own", record.JobGen{}, false, false},
		{"other nonce", record.JobGen{}, true, true},
		{"other nonce", record.JobGen{}, false, false},
		{"made-up", jg, true, false},
		{"made-up", second, true, true},
	} {
		n := bareNode(t.Context(), Config{Node: "n1", RunDir: "/r", Log: quiet()}, nil)
		if c.planned {
			text, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			kv := record.KV{Key: record.PlanKey(jg.Job, jg.Generation), Value: text, CreateRevision: 5, ModRevision: 5}
			n.records.list(genPart(jg), []string{record.Root}, []record.KV{kv}, 9)
			if !n.records.planOf(jg).Exists() {
				t.Fatal("no plan: this tests nothing")
			}
		}
		name := map[string]string{
			"made-up": "/r/x", "own": n.runDir(jg, "11112222"), "other nonce": n.runDir(jg, "33334444"),
		}[c.name]
		n.adoption.unadopted[filepath.Join("/elsewhere", filepath.Base(name))] = leftRun{of: c.of}
		r := &hosted{jg: jg, dir: n.runDir(jg, ""), shim: agent.Absent, sweep: sweepResult{done: true}}
		if n.adoption.over(r) != c.free {
			t.Errorf("an unadopted run %s of %v, plan known %t: over %t", c.name, c.of, c.planned, !c.free)
		}
		n.adoption.unscanned = errLooking
		if n.adoption.over(r) {
			t.Error("over before all processes were looked through")
		}
	}
}

// A run whose shim lives is adopted before all processes have been looked through,
// which a driver may hold up for ever.
func TestAdoptionDoesNotWaitForTheLookThroughProcesses(t *testing.T) {
	t.Parallel()
	n := bareNode(t.Context(), Config{Node: "n1", RunDir: t.TempDir(), Log: quiet()}, nil)
	found := rundir.Run{Dir: filepath.Join(n.cfg.RunDir, "x")}
	found.Order.World = cluster.World{Job: "train-aaaaaa", Generation: 2}
	n.adoption.adopt(findings{runs: []rundir.Run{found}})
	jg := generationOf("train-aaaaaa", 2)
	if n.runs.all[jg] == nil || n.adoption.scanned(jg) {
		t.Errorf("adopted: %t, all is known: %t", n.runs.all[jg] != nil, n.adoption.scanned(jg))
	}
	n.adoption.foundLost([]string{found.Dir, "/r/gone"}, nil)
	if _, lost := n.adoption.unadopted["/r/gone"]; !lost || len(n.adoption.unadopted) != 1 || !n.adoption.scanned(jg) {
		t.Errorf("unadopted %v, all is known: %t", n.adoption.unadopted, n.adoption.scanned(jg))
	}
}
