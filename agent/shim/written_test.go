package shim

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// leavesOpen writes files and closes none: what the main module names, what another module names,
// what only a cycle holds, and what the frame of an error holds.
const leavesOpen = `
import bz2, csv, gzip, lzma, sys, threading, time, zipfile
import keep
if "thread" in sys.argv: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
class End:
    def __del__(self): note()
def note(open=open):
    with open("end.txt", "w") as f: f.write("ended\n")
end = End()
rows = csv.writer(open("rows.csv", "w"))
for i in range(1000): rows.writerow([i, "abc"])
packed = gzip.open("a.gz", "wt")
packed.write("line\n" * 1000)
archive = zipfile.ZipFile("a.zip", "w")
archive.writestr("x", "y" * 1000)
keep.text = open("kept.txt", "w")
keep.text.write("z" * 5000)
keep.packed = {"gz": gzip.GzipFile("kept.gz", "wb"), "bz2": bz2.BZ2File("kept.bz2", "wb"), "xz": lzma.open("kept.xz", "wt")}
for f in keep.packed.values(): f.write("q" * 5000 if f is keep.packed["xz"] else b"q" * 5000)
keep.archive = zipfile.ZipFile("kept.zip", "w")
keep.archive.writestr("x", "y" * 1000)
keep.update = open("update.bin", "w+b")
keep.update.write(b"u" * 100)
class Cycle: pass
cycle = Cycle()
cycle.itself, cycle.f = cycle, open("cycle.bin", "wb")
cycle.f.write(b"c" * 100)
def fails():
    f = open("failed.txt", "w")
    f.write("f" * 100)
    raise RuntimeError("fails")
fails()
`

// TestWhatAScriptLeavesOpenIsWritten checks each file that a script leaves open against what was written to it.
func TestWhatAScriptLeavesOpenIsWritten(t *testing.T) {
	t.Parallel()
	const check = `
import bz2, gzip, lzma, sys, zipfile
assert open("rows.csv").read().splitlines() == ["%d,abc" % i for i in range(1000)], "rows.csv"
assert gzip.open("a.gz", "rt").read() == "line\n" * 1000, "a.gz"
for name in ("a.zip", "kept.zip"): assert zipfile.ZipFile(name).read("x") == b"y" * 1000, name
assert open("kept.txt").read() == "z" * 5000, "kept.txt"
for opener in (gzip, bz2, lzma):
    name = {gzip: "kept.gz", bz2: "kept.bz2", lzma: "kept.xz"}[opener]
    assert opener.open(name).read() == b"q" * 5000, name
for name in ("update.bin", "cycle.bin", "failed.txt"): assert open(name).read() == name[0] * 100, name
if sys.argv[1] != "thread": assert open("end.txt").read() == "ended\n", "end.txt"
`
	for _, how := range []string{"executed", "bare", "warm", "thread"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1, "")
			if how != "warm" {
				f.repeats()
			}
			f.pyScript(leavesOpen)
			f.order.Command = append(f.order.Command, how)
			write(t, filepath.Join(f.order.Workdir, "keep.py"), "", 0o644)
			if how == "bare" {
				f.start()
			} else {
				plan := f.prepared()
				f.order.Prepare.Modules = []string{"gzip"}
				plan.Prepare = f.order.Prepare
				if r := f.startPrepared(); !r.Prepared.Ready {
					t.Fatalf("prepared %+v", r.Prepared)
				}
				if how == "executed" {
					f.killLauncher()
				}
				f.bind(plan)
				f.push(Wish{Start: true})
			}
			r := f.stopped()
			if len(r.Stopped.Exits) != 1 || r.Stopped.Exits[0].Code != 1 || r.Warm != (how == "warm" || how == "thread") {
				t.Fatalf("warm %v: %+v, %s", r.Warm, r.Stopped, f.read("logs", "rank-0.log"))
			}
			if log := f.read("logs", "rank-0.log"); !strings.HasSuffix(log, "\nRuntimeError: fails\n") || strings.Contains(log, "Exception ignored") {
				t.Errorf("log:\n%s", log)
			}
			c := exec.Command(interpreter(t), "-c", check, how)
			c.Dir = f.order.Workdir
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}
