package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/sdk"
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
	k.recorded = &recorded{fd: -1}
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

// A worker may write what it likes where names are read: no disk holds it, what is kept of it is bounded, its end is
// said once, and who goes on writing is told so at once.
func TestWhatIsRecordedIsBounded(t *testing.T) {
	dir := t.TempDir()
	r, err := makeRecorded(dir, identity{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, recordedPipe)
	write := func(text string) error {
		fd, errOpen := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if errOpen != nil {
			return errOpen
		}
		defer unix.Close(fd) //nolint:errcheck // a pipe
		_, errOpen = unix.Write(fd, []byte(text))
		return errOpen
	}
	if err = errors.Join(r.read(), write("os\nto"), r.read(), write("rch\n"+strings.Repeat("x", maxModuleName+1)+"\n"), r.read()); err != nil || !slices.Equal(r.names, []string{"os", "torch"}) {
		t.Fatalf("names %q, %v", r.names, err)
	}
	much := strings.Repeat("x\n", 16<<10)
	full := 0
	for n := 0; n < 16<<20; n += len(much) { // without a reader
		if err = write(much); err != nil {
			full++
		}
	}
	if info, errStat := os.Lstat(path); errStat != nil || full == 0 || info.Size() > 0 {
		t.Errorf("%d writes failed, %+v, %v", full, info, errStat)
	}
	said := 0
	for range 4 * record.MaxModules / len(much) {
		_ = write(much)
		if err = r.read(); err != nil {
			said++
			if !errors.Is(err, errTooManyNames) {
				t.Error(err)
			}
		}
	}
	if said != 1 || len(r.names) > maxModules || !errors.Is(write(much), unix.ENOENT) {
		t.Errorf("said %d times, %d names are kept, writing goes on: %v", said, len(r.names), write(much))
	}
}

// A script whose shim does not read the names of its modules is not held up.
func TestAFullPipeBlocksNoWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, sdk.SiteFileName), string(sdk.Recorder), 0o644)
	r, err := makeRecorded(dir, identity{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, n := range []int{4 << 10, 1} {
		for err == nil {
			_, err = unix.Write(r.fd, make([]byte, n))
		}
		if !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		err = nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "-c", "import colorsys; print('ran')")
	cmd.Env = []string{"LOCAL_RANK=0", "PYTHONPATH=" + dir, "BELLOWS_WORKER_SOCKET=" + filepath.Join(dir, workerSocket)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, errRun := cmd.CombinedOutput(); errRun != nil || string(out) != "ran\n" {
		t.Errorf("%q, %v", out, errRun)
	}
}

// What a script writes there is on no disk of the agent's.
func TestAWorkerThatWritesManyNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "")
	f.pyScript(`
import os, stat
path = os.path.join(os.path.dirname(os.environ["BELLOWS_WORKER_SOCKET"]), "modules")
fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
for _ in range(256):
    try: os.write(fd, b"not a name!\n" * 5000)
    except OSError: pass
kept = os.stat(path)
print("ran", stat.S_ISREG(kept.st_mode), kept.st_size, kept.st_blocks)
`)
	f.start().started()
	if log := f.ended(0); log != "ran False 0 0\n" {
		t.Errorf("log: %q", log)
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
