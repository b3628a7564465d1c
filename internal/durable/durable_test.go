package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWriteReplaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	for _, c := range []struct {
		text string
		mode fs.FileMode
	}{{"one", 0o600}, {"two, and longer", 0o666}, {"", 0o400}, {"four", 0o644}} {
		if err := Write(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		info, errInfo := os.Stat(path)
		if err != nil || errInfo != nil || string(text) != c.text || info.Mode() != c.mode {
			t.Errorf("%q %v, %v, %v: want %q %v", text, info, err, errInfo, c.text, c.mode)
		}
		only(t, path)
	}
}

// Readers beside writers see whole files only.
func TestWritersAndReadersMeet(t *testing.T) {
	t.Parallel()
	const size, writes = 1 << 16, 50
	path := filepath.Join(t.TempDir(), "f")
	texts := []string{strings.Repeat("a", size), strings.Repeat("b", size/2), strings.Repeat("c", size/3)}
	done := make(chan error, len(texts))
	for _, text := range texts {
		go func() {
			var err error
			for range writes {
				err = errors.Join(err, Write(path, []byte(text), 0o600))
			}
			done <- err
		}()
	}
	read := 0
	for left := len(texts); left > 0; {
		select {
		case err := <-done:
			if left--; err != nil {
				t.Error(err)
			}
		default:
		}
		got, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && read == 0 {
			continue
		}
		if read++; err != nil || string(got) != texts[0] && string(got) != texts[1] && string(got) != texts[2] {
			t.Fatalf("%d bytes are no text that was written, %v", len(got), err)
		}
	}
	if read < writes {
		t.Errorf("%d reads only", read)
	}
	only(t, path)
}

// Of several that create a file one succeeds, and its text stays.
func TestOneCreates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	const writers = 20
	errs := make(chan error, writers)
	for i := range writers {
		go func() { errs <- Create(path, []byte{byte(i)}, 0o600) }()
	}
	made := 0
	for range writers {
		if err := <-errs; err == nil {
			made++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	before, _ := os.ReadFile(path)
	if err := Create(path, []byte("later"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	if after, err := os.ReadFile(path); made != 1 || err != nil || len(before) != 1 || string(after) != string(before) {
		t.Errorf("%d of %d made it; %q became %q, %v", made, writers, before, after, err)
	}
	only(t, path)
}

// A write that fails leaves the old file and nothing else.
func TestAFailedWriteChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.Mkdir(path, 0o700); err != nil { // a file is not renamed over a directory
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o600); !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.EEXIST) {
		t.Errorf("over a directory: %v", err)
	}
	only(t, path)
	if err := Write(filepath.Join(path, "none", "f"), []byte("x"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("below nothing: %v", err)
	}
	if err := Write("/dev/full/f", nil, 0o600); err == nil {
		t.Error("below a device: no error")
	}
}

// only demands that nothing is beside a file.
func only(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("the directory has %v, %v: want %s only", entries, err, filepath.Base(path))
	}
}
