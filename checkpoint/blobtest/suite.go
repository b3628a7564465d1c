package blobtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
)

// Run holds Blobs to what checkpoint.Blobs promises and to what checkpoints
// need of it. open returns a fresh, empty Bench each time.
func Run(t *testing.T, open func(t *testing.T) Bench) {
	cases := []struct {
		name string
		run  func(*testing.T, Bench)
	}{
		{"files and directories", testEntries},
		{"put replaces the whole file", testPut},
		{"what is not there", testNotThere},
		{"delete takes one directory", testDelete},
		{"names that lead outside", testOutside},
		{"damage is found and named", testDamage},
		{"parts of a manifest", testParts},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
	if b := open(t); b.Link != nil { // else there are no links that could lead anywhere
		t.Run("links that lead outside", func(t *testing.T) { testLinks(t, b) })
	}
	t.Run("any operation may fail", func(t *testing.T) { testFaults(t, open) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, b checkpoint.Blobs, name string) string {
	t.Helper()
	f, err := b.Open(name)
	must(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	must(t, err)
	must(t, f.Sync())
	return string(data)
}

func list(t *testing.T, b checkpoint.Blobs, dir string) string {
	t.Helper()
	entries, err := b.List(dir)
	must(t, err)
	return strings.TrimSpace(fmt.Sprintln(entries))
}

func testEntries(t *testing.T, b Bench) {
	must(t, b.Write("g1/b/deep/er.bin", []byte("12345")))
	must(t, b.Write("g1/c", nil))
	must(t, b.Write("g1/a", []byte("x")))
	if got, want := list(t, b.Blobs, "g1"), fmt.Sprint([]checkpoint.Entry{
		{Name: "a", Bytes: 1}, {Name: "b", Kind: checkpoint.Directory}, {Name: "c"},
	}); got != want {
		t.Errorf("listed %s, want %s", got, want)
	}
	if got := list(t, b.Blobs, "."); got != fmt.Sprint([]checkpoint.Entry{{Name: "g1", Kind: checkpoint.Directory}}) {
		t.Errorf("the root lists %s", got)
	}
	if got := read(t, b.Blobs, "g1/b/deep/er.bin"); got != "12345" {
		t.Errorf("read %q", got)
	}
	dir, err := b.Blobs.Open("g1/b")
	must(t, err)
	must(t, dir.Sync())
	must(t, dir.Close())
}

func testPut(t *testing.T, b Bench) {
	must(t, b.Write("g1/a", []byte("x")))
	must(t, b.Blobs.Put("g1/m", []byte("a long first version")))
	must(t, b.Blobs.Put("g1/m", []byte("second")))
	if got := read(t, b.Blobs, "g1/m"); got != "second" {
		t.Errorf("read %q", got)
	}
	if got, want := list(t, b.Blobs, "g1"), fmt.Sprint([]checkpoint.Entry{{Name: "a", Bytes: 1}, {Name: "m", Bytes: 6}}); got != want {
		t.Errorf("Put left something behind: %s", got)
	}
}

func testNotThere(t *testing.T, b Bench) {
	must(t, b.Write("g1/a", []byte("x")))
	_, listErr := b.Blobs.List("g2")
	_, openErr := b.Blobs.Open("g1/b")
	for _, err := range []error{listErr, openErr, b.Blobs.Put("g2/m", nil), b.Blobs.Delete("g1/gone")} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	}
}

func testDelete(t *testing.T, b Bench) {
	must(t, b.Write("g1/step-1/rank-00000/x", []byte("x")))
	must(t, b.Write("g1/step-2/rank-00000/x", []byte("x")))
	must(t, b.Blobs.Delete("g1/step-1"))
	if got := list(t, b.Blobs, "g1"); got != fmt.Sprint([]checkpoint.Entry{{Name: "step-2", Kind: checkpoint.Directory}}) {
		t.Errorf("what is left: %s", got)
	}
	must(t, b.Write("g1/step-1/rank-00000/x", []byte("again")))
	must(t, b.Blobs.Delete("g1/step-1"))
	must(t, b.Blobs.Delete("g1"))
	if got := list(t, b.Blobs, "."); got != "[]" {
		t.Errorf("what is left: %s", got)
	}
}

func testOutside(t *testing.T, b Bench) {
	must(t, b.Write("g1/a", []byte("x")))
	for _, name := range []string{"..", "../x", "/etc/passwd", "g1/../../x", ""} {
		if _, err := b.Blobs.List(name); err == nil {
			t.Errorf("List(%q) worked", name)
		}
		if _, err := b.Blobs.Open(name); err == nil {
			t.Errorf("Open(%q) worked", name)
		}
		if err := b.Blobs.Put(name, nil); err == nil {
			t.Errorf("Put(%q) worked", name)
		}
		if err := b.Blobs.Delete(name); err == nil {
			t.Errorf("Delete(%q) worked", name)
		}
	}
	if err := b.Blobs.Delete("."); err == nil {
		t.Error("the root itself was deleted")
	}
	if got := read(t, b.Blobs, "g1/a"); got != "x" {
		t.Errorf("g1/a is now %q", got)
	}
}

func testLinks(t *testing.T, b Bench) {
	outside := t.TempDir()
	must(t, b.Write("g1/a", []byte("x")))
	must(t, b.Link(outside, "g1/out"))
	must(t, b.Link("a", "g1/in"))
	if _, err := b.Blobs.List("g1/out"); err == nil {
		t.Error("List followed a link outside")
	}
	if err := b.Blobs.Put("g1/out/m", nil); err == nil {
		t.Error("Put followed a link outside")
	}
	if err := b.Blobs.Delete("g1/out/x"); err == nil {
		t.Error("Delete followed a link outside")
	}
	entries, err := b.Blobs.List("g1")
	must(t, err)
	for _, e := range entries {
		if e.Name != "a" && e.Kind != checkpoint.Irregular {
			t.Errorf("a link is listed as %+v", e)
		}
	}
	if _, err = checkpoint.Digest(t.Context(), b.Blobs, "g1", nil); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a checkpoint with a link in it: %v", err)
	}
	must(t, b.Blobs.Delete("g1"))
}

func testDamage(t *testing.T, b Bench) {
	must(t, b.train(100))
	sum, err := offer(t.Context(), b.Blobs, 100, false)
	must(t, err)
	m, err := checkpoint.Verify(t.Context(), b.Blobs, stepDir(100), sum)
	must(t, err)
	if len(m.Files) != 2*world || m.Samples != 25600 || m.Step != 100 || len(m.Ranks) != world {
		t.Errorf("the manifest says %+v", m)
	}
	file := path.Join(stepDir(100), "rank-00002/model.pt")
	good := content(100, 2)
	flipped := append([]byte{}, good...)
	flipped[len(flipped)/2] ^= 1
	for what, data := range map[string][]byte{"bytes": good[:len(good)-1], "sha256": flipped} {
		must(t, b.Write(file, data))
		_, err = checkpoint.Verify(t.Context(), b.Blobs, stepDir(100), sum)
		var corrupt *checkpoint.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Path != file || corrupt.What != what || errors.Is(err, checkpoint.ErrAbsent) {
			t.Errorf("%s changed: %v", what, err)
		}
	}
	must(t, b.Write(file, good))
	if _, err = checkpoint.Verify(t.Context(), b.Blobs, stepDir(100), sum); err != nil {
		t.Errorf("mended: %v", err)
	}
	must(t, b.Blobs.Delete(path.Dir(file)))
	if _, err = checkpoint.Verify(t.Context(), b.Blobs, stepDir(100), sum); !errors.Is(err, checkpoint.ErrAbsent) || !strings.Contains(err.Error(), file) {
		// The directory's other file may be the one that is named.
		if !errors.Is(err, checkpoint.ErrAbsent) || !strings.Contains(err.Error(), path.Dir(file)) {
			t.Errorf("a file is missing: %v", err)
		}
	}
	must(t, b.Write(path.Join(stepDir(100), layout.Manifest), []byte("{}")))
	var corrupt *checkpoint.CorruptError
	if _, err = checkpoint.Verify(t.Context(), b.Blobs, stepDir(100), sum); !errors.As(err, &corrupt) {
		t.Errorf("another manifest: %v", err)
	}
}

// testParts merges by way of parts: to the same manifest, again and again, and to none where one is not what was recorded.
func testParts(t *testing.T, b Bench) {
	must(t, b.train(100))
	want, err := offer(t.Context(), b.Blobs, 100, false)
	must(t, err)
	manifest := path.Join(stepDir(100), layout.Manifest)
	text := read(t, b.Blobs, manifest)
	must(t, b.Blobs.Delete(manifest))
	parts, err := recorded(t.Context(), b.Blobs, 100, true)
	must(t, err)
	second := path.Join(stepDir(100), checkpoint.PartName([]int{2, 3}))
	list := read(t, b.Blobs, second)

	must(t, b.Write(second, []byte(list[:len(list)/2])))
	var corrupt *checkpoint.CorruptError
	if _, err = merge(b.Blobs, 100, parts); !errors.As(err, &corrupt) || corrupt.Path != second {
		t.Errorf("a torn part: %v", err)
	}
	must(t, b.Blobs.Delete(second))
	if _, err = merge(b.Blobs, 100, parts); !errors.Is(err, checkpoint.ErrAbsent) {
		t.Errorf("a part that is not there: %v", err)
	}
	must(t, b.Write(manifest, []byte(strings.Replace(text, "model.pt", "modem.pt", 1))))
	if _, err = merge(b.Blobs, 100, parts); !errors.Is(err, checkpoint.ErrAbsent) {
		t.Errorf("a part that is not there, and another manifest: %v", err)
	}
	must(t, b.Write(second, []byte(list)))
	for range 3 { // the parts are there, then they are not
		got, errMerge := merge(b.Blobs, 100, parts)
		if must(t, errMerge); got != want {
			t.Errorf("merged to %s, from records alone to %s", got, want)
		}
		if left, _ := b.Blobs.List(stepDir(100)); len(left) != world+1 {
			t.Errorf("left behind: %v", left)
		}
		_, err = checkpoint.Verify(t.Context(), b.Blobs, stepDir(100), got)
		must(t, err)
	}
	parts[1].Samples++
	if _, err = merge(b.Blobs, 100, parts); !errors.Is(err, checkpoint.ErrAbsent) {
		t.Errorf("no parts, and the manifest is of another save: %v", err)
	}
}

// testFaults writes a second checkpoint while each operation in turn goes
// wrong: the first one must stay good, and the second be good if it is offered.
func testFaults(t *testing.T, open func(t *testing.T) Bench) {
	for _, long := range []bool{false, true} {
		testFaultsWith(t, open, long)
	}
}

func testFaultsWith(t *testing.T, open func(t *testing.T) Bench, long bool) {
	counter := &Faulty{At: -1}
	for at := -1; at < counter.Ops(); at++ {
		for _, wrong := range []struct {
			err  error
			done bool
		}{{err: syscall.EIO}, {err: syscall.ENOSPC}, {err: ErrDead, done: true}} {
			b := open(t)
			must(t, b.train(100))
			first, err := offer(t.Context(), b.Blobs, 100, false)
			must(t, err)
			must(t, b.train(200))

			f := &Faulty{Blobs: b.Blobs, At: at, Err: wrong.err, Done: wrong.done}
			second, err := offer(t.Context(), f, 200, long)
			if at < 0 {
				must(t, err)
				counter = f
			}
			// What only takes parts away may fail: they go with their checkpoint.
			tidying := long && at >= counter.Ops()-2
			if at >= 0 && err == nil && !tidying {
				t.Errorf("operation %d returned %v, and the checkpoint was offered all the same", at, wrong.err)
			}
			if err == nil {
				_, err = checkpoint.Verify(t.Context(), b.Blobs, stepDir(200), second)
				must(t, err)
			}
			if _, err = checkpoint.Verify(t.Context(), b.Blobs, stepDir(100), first); err != nil {
				t.Errorf("operation %d returned %v: the older checkpoint: %v", at, wrong.err, err)
			}
		}
	}
}
