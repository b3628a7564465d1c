package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
func parkedRun(t *testing.T, ranks int, script string) (f *fixture, plan Order) {
	t.Helper()
	f = newFixture(t, ranks, "")
	write(t, filepath.Join(f.order.Workdir, "wait.sh"), script, 0o644)
	f.order.Command = []string{"bash", "wait.sh"}
	plan = f.prepared()
	f.order.Prepare.Waits = true
	plan.Prepare = f.order.Prepare
	return f, plan
}

// A command that waits becomes the worker: with the environment, the log and the groups of one that was executed.
func TestACommandThatWaits(t *testing.T) {
	t.Parallel()
	f, plan := parkedRun(t, 1, waitsForRelease+"cat /proc/self/cgroup >cgroup\nexit 0\n")
	if r := f.startPrepared(); !r.Prepared.Ready || r.Prepared.Memory == 0 {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	waiting := f.launcherOf()
	f.bind(plan)
	f.push(Wish{Start: true})
	r := f.started()
	if !r.Warm || f.worker(r, 0) != waiting {
		t.Errorf("warm %v, worker %+v, and %+v waited", r.Warm, f.worker(r, 0), waiting)
	}
	want := "starting up\nreleased yes rank 0 of 1 at " + itoa(plan.World.Master.Port) + ", " + plan.Checkpoint + "\n"
	if log := f.ended(0); log != want {
		t.Errorf("log:\n%s\nwant:\n%s", log, want)
	}
	if groups := f.read("work", "cgroup"); strings.Contains(groups, launcherGroup) {
		t.Errorf("it is where launchers are:\n%s", groups)
	}
}

// Where it cannot be the worker it is told so by the end of what it reads, and all are executed.
func TestACommandThatWaitsInVain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ranks       int
		script, why string
	}{
		"two":     {2, waitsForRelease, "2 processes on this node, and one waited"},
		"ends":    {1, "[ -z \"$BELLOWS_READY_FD\" ] || { sleep 0.3; exit 0; }\n" + waitsForRelease, "ended"},
		"is dead": {1, waitsForRelease, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, plan := parkedRun(t, c.ranks, c.script)
			r := f.startPrepared()
			if r.Prepared.Ready != (name != "ends") {
				t.Fatalf("prepared %+v", r.Prepared)
			}
			if name == "is dead" {
				f.killLauncher()
			}
			f.startCold(plan, c.why)
			if log := f.ended(0); !strings.Contains(log, "released no rank 0 of "+itoa(c.ranks)) {
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
	write(t, f.order.EnvFile, "VALUE=1\n", 0o600)
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	write(t, f.order.EnvFile, "VALUE=22\n", 0o600)
	f.startCold(plan, "its environment has changed since it was started")
	if log := f.ended(0); !strings.HasSuffix(log, "\nvalue 22\n") {
		t.Errorf("log:\n%s", log)
	}
}

// Before its release it dies with its shim, and what it reads ends without an empty name: a command that lives
// on would not run beside another generation.
func TestACommandThatWaitsIsNotReleasedByTheEndOfItsShim(t *testing.T) {
	t.Parallel()
	f, _ := parkedRun(t, 1, "trap '' TERM\n"+waitsForRelease+"touch ran\n")
	if r := f.startPrepared(); !r.Prepared.Ready {
		t.Fatalf("prepared %+v", r.Prepared)
	}
	waiting := f.launcherOf()
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
