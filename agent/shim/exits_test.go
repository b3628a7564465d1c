package shim

import (
	"os"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// A process that runs ahead may end before the shim has read its start time, without which it cannot be named.
func TestAProcessIsNotReapedBeforeItIsIdentified(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "it has ended", func() bool {
		s, err := proc.ReadStat(pid)
		return err != nil || !s.Lives()
	})
	sh := &shared{state: run.New(run.Order{Prepare: &run.Prepare{}}, run.Process{}, run.Weak)}
	sh.facts.Ahead.Executing = true
	sh.reap()
	if _, err := proc.Identify(pid); err != nil {
		t.Error(err)
	}
	sh.facts.Ahead.Executing = false
	sh.reap()
	if _, err := proc.Identify(pid); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}
