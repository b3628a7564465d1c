package verify

import (
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/prometheus/procfs"
)

// leaves is a script of which each worker leaves a process that holds a lock; memory makes its end take long.
const leaves = `import fcntl, os, subprocess, sys
holds = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); b = b'x' * (256 << 20); print(flush=True); time.sleep(1000)"
lock = os.path.dirname(os.path.abspath(__file__)) + "/lock-" + os.environ["RANK"]
fcntl.flock(open(lock, "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)
subprocess.Popen([sys.executable, "-S", "-c", holds, lock], stdout=subprocess.PIPE).stdout.readline()
`

// TestWhatAWorkerLeavesIsGone: before the next world begins, in which it would hold what it holds.
func TestWhatAWorkerLeavesIsGone(t *testing.T) {
	if r, err := tried(t, leaves+loop); err != nil || r.Reached != Bitwise {
		t.Errorf("%v %+v", err, r)
	}
}

// TestAGroupEnds: nothing of it lives when that is said; with zombies it is still a group.
func TestAGroupEnds(t *testing.T) {
	const large = "import time; b = b'x' * (512 << 20); print(flush=True); time.sleep(1000)" // its end takes long
	cmd := exec.Command("sh", "-c", `"$0" -S -c "$1" & exec sleep 1001`, interpreter, large)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	if _, err := out.Read(make([]byte, 1)); err != nil || len(living(group)) != 2 {
		t.Errorf("%q live of group %d: %v", living(group), group, err)
	}
	for range 2 { // the second is none any more, or one of zombies
		if err := endGroup(group); err != nil {
			t.Error(err)
		}
		if alive := living(group); len(alive) > 0 {
			t.Errorf("%q live of group %d", alive, group)
		}
		_ = cmd.Wait() // it was killed
	}
}

func TestStates(t *testing.T) {
	for _, tt := range []struct {
		state   string
		threads int
		want    bool
	}{{"S", 1, true}, {"D", 1, true}, {"Z", 1, false}, {"Z", 3, true}, {"X", 1, false}, {"X", 0, false}} {
		if got := lives(procfs.ProcStat{State: tt.state, NumThreads: tt.threads}); got != tt.want {
			t.Errorf("state %s with %d threads: %v", tt.state, tt.threads, got)
		}
	}
}

// TestUntilNothingLives: it is killed again for as long as something of it lives, and named after a while.
func TestUntilNothingLives(t *testing.T) {
	for _, tt := range []struct {
		empty, gone int // the look at which the group is empty, or has only zombies
		kills       int
		fault       string
	}{{empty: 1, gone: 9, kills: 1}, {empty: 9, gone: 1, kills: 1}, {empty: 9, gone: 4, kills: 4}, {empty: 4, gone: 9, kills: 4}, {empty: 1 << 20, gone: 1 << 20, fault: "10s after it was killed, what it has left lives: process 7 (x)"}} {
		synctest.Test(t, func(t *testing.T) {
			kills := 0
			err := untilGone(func() error {
				if kills++; kills >= tt.empty {
					return syscall.ESRCH
				}
				return nil
			}, func() []string {
				if kills >= tt.gone {
					return nil
				}
				return []string{"process 7 (x)"}
			})
			if errorText(err) != tt.fault || tt.fault == "" && kills != tt.kills {
				t.Errorf("%+v: %v after %d signals", tt, err, kills)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
