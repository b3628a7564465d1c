package shim

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// The leader has the next generation prepared from the first step on, so the names of what the
// script has imported for that are kept then, however long the present pause is.
func TestTheFirstStepKeepsTheNames(t *testing.T) {
	alarm, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer alarm.close()
	sh := &shared{
		dir: t.TempDir(), order: Order{ModulesFile: "/nonexistent"}, alarm: alarm, phase: running,
		workers: []*worker{{Worker: record.Worker{PID: 77}}}, events: make(chan func()), done: make(chan struct{}),
	}
	close(sh.done)
	m := assemble(sh, Report{})
	k := m.modules
	now := Boottime()
	if k.stepKeep(now); k.busy {
		t.Fatal("kept before anything was imported")
	}
	m.report.Progress = &record.JobProgress{Step: 1}
	if k.stepKeep(now); !k.busy || !k.stepped {
		t.Fatalf("not kept at the first step: %+v", k)
	}
	k.busy, k.next = false, now+int64(time.Hour)
	m.report.Progress = &record.JobProgress{Step: 2}
	if k.stepKeep(now); k.busy {
		t.Error("kept at the second step, too")
	}
}

// What another node says is taken for names, within bounds, and for nothing else.
func TestNamesAreTakenFromAnotherNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "names")
	for what, text := range map[string]string{
		"no JSON":         "import os",
		"another version": `{"version":999,"modules":["torch"]}`,
		"nothing":         fmt.Sprintf(`{"version":%d,"modules":["../x","os; import evil","sitecustomize"]}`, ProtocolVersion),
		"too much":        `{"modules":["` + strings.Repeat("x", record.MaxModules) + `"]}`,
	} {
		if err := TakeModules(path, []byte(text)); err == nil || KnowsModules(path) {
			t.Errorf("%s: taken, %v", what, err)
		}
	}
	text := fmt.Sprintf(`{"version":%d,"modules":["torch","a b","torch.nn"],"avoid":{"jax":"threads\u001b[2J","a b":"x"}}`, ProtocolVersion)
	if err := TakeModules(path, []byte(text)); err != nil || !KnowsModules(path) {
		t.Fatal(err)
	}
	l := readModules(path)
	if !slices.Equal(l.Modules, []string{"torch", "torch.nn"}) || len(l.Avoid) != 1 || strings.Contains(l.Avoid["jax"], "\x1b") {
		t.Errorf("taken: %+v", l)
	}
}
