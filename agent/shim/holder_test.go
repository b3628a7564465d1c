package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
)

// What a worker has started does not outlive the shim, whatever contains it and
// however it hides, also with its directory gone or on a disk that hangs.
func TestWhatOutlivesItsShimIsKilledAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range append(kinds(), run.Weak) {
		for _, files := range []string{"there", "gone", "hang"} {
			t.Run(fmt.Sprintf("%s files=%s", kind, files), func(t *testing.T) {
				t.Parallel()
				if kind != run.Weak {
					needsKind(t, kind)
				}
				f := newFixture(t, 1, "").python(bare)
				if files != "there" {
					f.repeats()
				}
				f.order.Containment = kind
				f.start()
				f.started()
				p, rec, holder := f.escaped(), f.recorded(), f.holder()
				switch files {
				case "gone":
					f.removeDirectory()
				case "hang":
					for _, name := range []string{rundir.OrderFile, rundir.ShimFile, rundir.ReportFile} {
						defer f.hangs(filepath.Join(f.dir, name))()
					}
				}
				if err := unix.Kill(f.shim.PID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				f.gone("what its worker has started", p)
				f.gone("the holder", holder)
				if held := heldStill(f.order, f.dir); len(held) > 0 {
					t.Errorf("locks are held: %v", held)
				}
				if _, err := os.Stat(rec.Cgroup); rec.Cgroup != "" && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("cgroup is left: %v", err)
				}
			})
		}
	}
}

// A shim that loses its holder goes on, and so do its workers.
func TestAShimGoesOnWithoutItsHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, plain).start()
	f.started()
	f.awaitFile("up-0")
	holder := f.holder()
	if err := unix.Kill(holder.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.gone("the holder", holder)
	f.push(run.Wish{Halt: terminated()})
	if r := f.stopped(); r.Failed != nil || r.Stopped.Exits[0].Code != 0 {
		t.Errorf("stopped %+v", r.Stopped)
	}
	f.retire()
}

// A signal to all, as from the end of a scope, is the shim's to answer: it ends in
// order, and its holder after it.
func TestASignalToShimAndHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, stubborn).start()
	f.started()
	holder := f.holder()
	for _, p := range []run.Process{holder, f.shim} {
		if err := unix.Kill(p.PID, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	f.gone("the shim", f.shim)
	f.gone("the holder", holder)
	if r, err := rundir.ReadReport(f.dir); err != nil || r.Stopped == nil {
		t.Errorf("report %+v, %v", r, err)
	}
	f.nothingLeft()
}
