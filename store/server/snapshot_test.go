package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file gets a name that is free, and no other, whatever the file system can do.
func TestPublish(t *testing.T) {
	t.Parallel()
	for name, publish := range map[string]func(from, to string) error{"at once": publish, "reserved": publishReserved} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			from, to := filepath.Join(dir, "backup.1"), filepath.Join(dir, "backup")
			for _, text := range []string{"first", "second"} {
				if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				err := publish(from, to)
				if first := text == "first"; first != (err == nil) || !first && !errors.Is(err, fs.ErrExist) {
					t.Errorf("the %s: %v", text, err)
				}
			}
			if text, err := os.ReadFile(to); err != nil || string(text) != "first" {
				t.Errorf("it holds %q, %v", text, err)
			}
			if text, err := os.ReadFile(from); err != nil || string(text) != "second" {
				t.Errorf("what was refused holds %q, %v", text, err)
			}
			if err := publish(filepath.Join(dir, "nothing"), filepath.Join(dir, "other")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that is not there: %v", err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "other")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it has left a name: %v", err)
			}
		})
	}
}
