package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// ErrAbsent is wrapped when a part of a checkpoint is not there. On network
// file systems that may only mean: not yet visible on this node. Try again for a while.
var ErrAbsent = errors.New("not there")

// CorruptError says that a checkpoint is there but is not what was committed.
type CorruptError struct {
	Path string `json:"path"` // relative to the root of the Blobs
	What string `json:"what"` // what differs: "bytes" or "sha256"
	Want string `json:"want"`
	Got  string `json:"got"`
}

// Error names the file, and what was expected and found.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt: %s is %s, should be %s", e.Path, e.What, e.Got, e.Want)
}

// Verify reads a checkpoint and compares all of it with the digest of its
// manifest that was committed. It returns the manifest if everything is as it
// was. The error wraps ErrAbsent if a part is missing and is a *CorruptError if
// one differs; any other means that the checkpoint could not be read, which
// says nothing about it.
func Verify(ctx context.Context, b Blobs, dir, manifestSHA256 string) (Manifest, error) {
	m, err := Inspect(b, dir, manifestSHA256)
	if err != nil {
		return Manifest{}, err
	}
	err = inParallel(ctx, len(m.Files), func(i int) error { return compare(ctx, b, dir, m.Files[i]) })
	if err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func compare(ctx context.Context, b Blobs, dir string, f record.File) error {
	name := path.Join(dir, f.Path)
	sum, n, err := digestFile(ctx, b, name, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent(name)
	case err != nil:
		return err
	case n != f.Bytes:
		return differs(name, "bytes", f.Bytes, n)
	case sum != f.SHA256:
		return differs(name, "sha256", f.SHA256, sum)
	}
	return nil
}

// Inspect is Verify without reading the files: it compares the manifest, and
// that all files are there in their sizes. It finds what a crash can do to a
// checkpoint, not what a disk can.
func Inspect(b Blobs, dir, manifestSHA256 string) (Manifest, error) {
	m, err := readManifest(b, dir, manifestSHA256)
	if err == nil {
		err = compareSizes(b, dir, m)
	}
	if err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func readManifest(b Blobs, dir, want string) (Manifest, error) {
	name := path.Join(dir, layout.Manifest)
	text, err := readBounded(b, name)
	if err != nil {
		return Manifest{}, err
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != want {
		return Manifest{}, differs(name, "sha256", want, got)
	}
	m, err := Decode(text)
	if err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", name, err)
	}
	return m, nil
}

// compareSizes lists each directory once, which is cheap, before anything is read, which is not.
func compareSizes(b Blobs, dir string, m Manifest) error {
	listed := map[string]map[string]Entry{}
	for _, f := range m.Files {
		name := path.Join(dir, f.Path)
		parent := path.Dir(name)
		if listed[parent] == nil {
			entries, err := list(b, parent)
			if err != nil {
				return err
			}
			listed[parent] = map[string]Entry{}
			for _, e := range entries {
				listed[parent][e.Name] = e
			}
		}
		e, ok := listed[parent][path.Base(name)]
		switch {
		case !ok:
			return absent(name)
		case e.Kind != Regular:
			return differs(name, "kind", "a plain file", "a directory, link or special file")
		case e.Bytes != f.Bytes:
			return differs(name, "bytes", f.Bytes, e.Bytes)
		}
	}
	return nil
}

func absent(name string) error { return fmt.Errorf("read %s: %w", name, ErrAbsent) }

func differs(name, what string, want, got any) error {
	return &CorruptError{Path: name, What: what, Want: fmt.Sprint(want), Got: fmt.Sprint(got)}
}
