package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/agent/run"
)

// waitsForRelease is a script that waits as docs/environment.md has it, and tells how it was started.
const waitsForRelease = `
echo starting up
released=no
if [ -n "$BELLOWS_READY_FD" ]; then
    [ "$(ls /proc/$$/fd | grep -cx 3)" = 1 ] || exit 9
    echo >&"$BELLOWS_READY_FD"
    while IFS= read -r -d '' entry <&"$BELLOWS_READY_FD"; do
        [ -n "$entry" ] || { released=yes; break; }
        export "$entry"
    done
    [ $released = yes ] || { touch unwanted; exit 3; }
fi
echo "released $released rank $RANK of $WORLD_SIZE at $MASTER_PORT, $BELLOWS_CHECKPOINT_DIR"
`

// parkedRun starts a prepared run of a command that waits, in so many processes.
func parkedRun(t *testing.T, ranks int, script string) (f *fixture, plan run.Order) {
	t.Helper()
	f = newFixture(t, ranks, "")
	f.writes("wait.sh", script)
	f.order.Command = []string{"bash", "wait.sh"}
	return f, f.prepares(func(p *run.Prepare) { p.Waits, p.Workers = true, ranks })
}

// Commands that wait become the workers: with the environment, the log and the groups of those that were executed.
func TestACommandThatWaits(t *testing.T) {
	t.Parallel()
	for _, ranks := range []int{1, 3} {
		t.Run(strconv.Itoa(ranks), func(t *testing.T) {
			t.Parallel()
			f, plan := parkedRun(t, ranks, waitsForRelease+"cat /proc/self/cgroup >cgroup-$RANK\nexit 0\n")
			f.ready(ranks)
			waiting := f.ahead()
			r := f.startWarm(plan)
			for i := range ranks {
				if !slices.Contains(waiting, f.worker(r, i)) {
					t.Errorf("worker %+v, and %+v waited", f.worker(r, i), waiting)
				}
			}
			f.stopped()
			f.retire()
			for rank := range ranks {
				want := fmt.Sprintf("starting up\nreleased yes rank %d of %d at %d, %s\n", rank, ranks, plan.World.Master.Port, plan.Checkpoint)
				if log := f.read("logs", "rank-"+strconv.Itoa(rank)+".log"); log != want {
					t.Errorf("log:\n%s\nwant:\n%s", log, want)
				}
				if groups := f.read("work", "cgroup-"+strconv.Itoa(rank)); strings.Contains(groups, "/ahead") {
					t.Errorf("it is where what runs ahead is:\n%s", groups)
				}
			}
		})
	}
}

// Where it cannot be the worker it is told so by the end of what it reads, and all are executed.
func TestACommandThatWaitsInVain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, why string }{
		"ends":    {"[ -z \"$BELLOWS_READY_FD\" ] || { sleep 0.3; echo good bye; exit 0; }\n" + waitsForRelease, "good bye"},
		"is dead": {waitsForRelease, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, plan := parkedRun(t, 2, c.script)
			r := f.startPrepared()
			if r.Prepared.Ready != (name != "ends") {
				t.Fatalf("prepared %+v", r.Prepared)
			}
			if name == "is dead" {
				f.killParked()
			}
			f.startCold(plan, c.why)
			if log := f.ended(1); !strings.Contains(log, "released no rank 1 of 2") {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// One that was started with another environment than its generation's is not released.
func TestACommandThatWaitedWithAnotherEnvironment(t *testing.T) {
	t.Parallel()
	f, plan := parkedRun(t, 1, waitsForRelease+"echo value $VALUE\n")
	f.order.EnvFile = filepath.Join(f.root, "env")
	plan.EnvFile = f.order.EnvFile
	agenttest.Write(t, f.order.EnvFile, "VALUE=1\n", 0o600)
	f.ready(1)
	agenttest.Write(t, f.order.EnvFile, "VALUE=22\n", 0o600)
	f.startCold(plan, "its environment has changed since it was parked")
	if log := f.ended(0); !strings.HasSuffix(log, "\nvalue 22\n") {
		t.Errorf("log:\n%s", log)
	}
}

// Before its release it dies with its shim, and what it reads ends without an empty name: a command that lives
// on would not run beside another generation.
func TestACommandThatWaitsIsNotReleasedByTheEndOfItsShim(t *testing.T) {
	t.Parallel()
	f, _ := parkedRun(t, 1, "trap '' TERM\n"+waitsForRelease+"touch ran\n")
	f.ready(1)
	waiting := f.ahead()[0]
	if err := unix.Kill(f.shim.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.gone("what waited", waiting)
	if err := sweepPatiently(f.dir, f.order.LockDir, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(f.order.Workdir, "ran")); err == nil {
		t.Error("it ran")
	}
	f.nothingLeft()
}

// Of more commands that wait than the plan has workers the others are killed: one may take no notice of the end of what it reads.
func TestACommandThatWaitsForNoPlanIsKilled(t *testing.T) {
	t.Parallel()
	f, plan := parkedRun(t, 1, strings.Replace(waitsForRelease, "touch unwanted; exit 3", "sleep 1000", 1)+"exec sleep 1000\n")
	f.order.Prepare.Workers = 2
	f.ready(2)
	before := f.ahead()
	worker := f.worker(f.startWarm(plan), 0)
	for _, p := range before {
		if p != worker {
			f.gone("what waited", p)
		}
	}
	if !proc.Alive(worker) {
		t.Error("the worker has ended, too")
	}
	f.kill()
}
