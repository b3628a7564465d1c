package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/record"
)

// smallDisk makes dir a file system of so many kilobytes, which only root may.
func (f *fixture) smallDisk(dir string, kilobytes int) {
	f.t.Helper()
	if os.Geteuid() != 0 {
		f.t.Skip("a really full disk is a mount of the test's own, for which the kernel wants root")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(kilobytes)+"k,mode=755"); err != nil {
		f.t.Fatal(err)
	}
	f.unmount = append(f.unmount, dir)
}

// fill uses up what is left of a disk, and says how to give it back.
func (f *fixture) fill(dir string) (free func()) {
	f.t.Helper()
	path := filepath.Join(dir, "filler")
	if err := os.WriteFile(path, make([]byte, 8<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		f.t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			f.t.Fatal(err)
		}
	}
}

// saver saves a step each time it is told to, and says how that went.
const saver = `
import os, time
import bellows
def write(directory):
    with open(os.path.join(directory, "model"), "wb") as f:
        f.write(b"x" * 20000)
def tell(name, text):
    with open(name + ".tmp", "w") as f: f.write(text + "\n")
    os.rename(name + ".tmp", name)
for step in range(1, 5):
    while not os.path.exists("go-%d" % step): time.sleep(0.01)
    bellows.save(step, write)
    tell("saved-%d" % step, "yes")
`

// Nothing of the shim's own may hold up training when the agent's disk is full:
// neither a save, whose confirmation needs a report on disk, nor a print.
func TestAFullRunDirectoryHoldsUpNoSave(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(saver)
	f.smallDisk(f.dir, 512)
	f.start()
	f.started()
	free := f.fill(f.dir)
	for step := 1; step <= 4; step++ {
		agenttest.Write(t, filepath.Join(f.order.Workdir, "go-"+strconv.Itoa(step)), "", 0o644)
		f.awaitFile("saved-" + strconv.Itoa(step))
	}
	if r := f.stopped(); !r.Stopped.Finished || len(r.Saves) == 0 {
		t.Errorf("saves %+v, stopped %+v, failed %+v", r.Saves, r.Stopped, r.Failed)
	}
	f.shimWrites("the end, on the full disk", func(r run.Report) bool { return r.Stopped != nil })
	free()
	f.retire()
}

func TestAFullRunDirectoryPreventsTheStartAndSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	f.smallDisk(f.dir, 100) // room for the order, but not for reports
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), exe, f.dir, f.order)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "make room for reports") {
		t.Errorf("Start: %v", err)
	}
	f.fill(f.dir)
	if _, err = Start(t.Context(), exe, f.dir, f.order); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Start on a disk with nothing left: %v", err)
	}
	if _, err = os.Stat(filepath.Join(f.order.Workdir, "ran")); err == nil {
		t.Error("it ran all the same")
	}
}

func TestAFullCheckpointDirectoryFailsTheSaveAndNotTheJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(saver)
	base := filepath.Dir(filepath.Dir(f.order.Checkpoint))
	f.smallDisk(base, 256)
	f.start()
	f.started()
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go-1"), "", 0o644)
	f.awaitFile("saved-1")
	f.fill(base)
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go-2"), "", 0o644)
	r := f.stopped()
	if r.Failed == nil || r.Failed.Kind != record.NoSpace || r.Failed.Rank != 0 {
		t.Fatalf("failed %+v", r.Failed)
	}
	for _, word := range []string{"save step 2", "No space left on device", "make room", f.order.Checkpoint, "exit status 1"} {
		if !strings.Contains(r.Failed.Reason, word) {
			t.Errorf("reason %q does not say %q", r.Failed.Reason, word)
		}
	}
	if len(r.Saves) != 1 || r.Saves[0].Step != 1 {
		t.Errorf("saves %+v", r.Saves)
	}
	if b, err := os.ReadFile(filepath.Join(r.Saves[0].Dir, "rank-00000", "model")); err != nil || len(b) != 20000 {
		t.Errorf("the save before: %d bytes, %v", len(b), err)
	}
	f.retire()
}

func TestACheckpointDirectoryThatIsFullAtTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	base := filepath.Dir(filepath.Dir(f.order.Checkpoint))
	f.smallDisk(base, 64)
	f.fill(base)
	r := f.start().stopped()
	if r.Failed == nil || r.Failed.Kind != record.NoSpace || !strings.Contains(r.Failed.Reason, "checkpoint_dir") ||
		!strings.Contains(r.Failed.Reason, "no space left on device: make room there") {
		t.Errorf("failed %+v", r.Failed)
	}
	f.retire()
}

// remount makes a disk read-only, or not.
func (f *fixture) remount(dir string, flags uintptr) {
	f.t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, ""); err != nil {
		f.t.Fatal(err)
	}
}

func TestAReadOnlyCheckpointDirectoryMayPass(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "echo ran > ran")
	base := filepath.Dir(filepath.Dir(f.order.Checkpoint))
	f.smallDisk(base, 64)
	f.remount(base, unix.MS_RDONLY)
	r := f.start().stopped()
	if r.Failed == nil || r.Failed.Kind != record.Transient || !strings.Contains(r.Failed.Reason, "checkpoint_dir") ||
		!strings.Contains(r.Failed.Reason, "read-only file system: look at its file system") {
		t.Errorf("failed %+v", r.Failed)
	}
	f.retire()
}

func TestASaveOnAReadOnlyDiskFailsTheSaveAndNotTheJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, "").python(saver)
	base := filepath.Dir(filepath.Dir(f.order.Checkpoint))
	f.smallDisk(base, 256)
	f.start()
	f.started()
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go-1"), "", 0o644)
	f.awaitFile("saved-1")
	f.remount(base, unix.MS_RDONLY)
	agenttest.Write(t, filepath.Join(f.order.Workdir, "go-2"), "", 0o644)
	r := f.stopped()
	if r.Failed == nil || r.Failed.Kind != record.Transient || r.Failed.Rank != 0 || !strings.Contains(r.Failed.Reason, "save step 2") ||
		!strings.Contains(r.Failed.Reason, "look at the file system of $BELLOWS_CHECKPOINT_DIR") {
		t.Fatalf("failed %+v", r.Failed)
	}
	f.retire()
}
