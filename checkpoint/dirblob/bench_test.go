package dirblob_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/checkpoint/layout"
)

// BenchmarkDigest digests 1 GiB as one, two and eight ranks save it, and has
// sha256sum do the same beside it, one process for each file.
func BenchmarkDigest(b *testing.B) {
	const total = 1 << 30
	for _, n := range []int{1, 2, 8} {
		root := b.TempDir()
		var ranks []int
		var files []string
		for r := range n {
			file := filepath.Join(root, "g1", layout.Rank(r), "model.pt")
			err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, make([]byte, total/n), 0o644))
			if err != nil {
				b.Fatal(err)
			}
			ranks, files = append(ranks, r), append(files, file)
		}
		b.Run("bellows/files="+strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(total)
			for b.Loop() {
				task := dirblob.Task{Root: root, Digest: &dirblob.Digest{Dir: "g1", Ranks: ranks}}
				if _, err := task.Do(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("sha256sum/files="+strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(total)
			for b.Loop() {
				sha256sums(b, files)
			}
		})
	}
}

func sha256sums(b *testing.B, files []string) {
	b.Helper()
	var running []*exec.Cmd
	for _, f := range files {
		c := exec.Command("sha256sum", f)
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		running = append(running, c)
	}
	for _, c := range running {
		if err := c.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
