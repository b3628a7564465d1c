package jobspec

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestCheckpointDirsAreTriedBeforeAJobIsSubmitted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, base string) (dir string, err error)
		root    bool     // preparing it needs root
		want    []string // nil: it is good
	}{
		"made": {func(_ *testing.T, base string) (string, error) { return filepath.Join(base, "a", "b"), nil }, false, nil},
		"a link": {func(t *testing.T, base string) (string, error) {
			return filepath.Join(base, "to"), os.Symlink(t.TempDir(), filepath.Join(base, "to"))
		}, false, nil},
		"a link to nowhere": {func(_ *testing.T, base string) (string, error) {
			return filepath.Join(base, "to", "ck"), os.Symlink("/no/where", filepath.Join(base, "to"))
		}, false, []string{"/to is a link to /no/where", "make that folder"}},
		"a file": {func(_ *testing.T, base string) (string, error) {
			return filepath.Join(base, "f"), os.WriteFile(filepath.Join(base, "f"), nil, 0o600)
		}, false, []string{"not a directory", "choose another"}},
		"a file on the way": {func(_ *testing.T, base string) (string, error) {
			return filepath.Join(base, "f", "g", "h"), os.WriteFile(filepath.Join(base, "f"), nil, 0o600)
		}, false, []string{"/f: not a directory", "choose another"}},
		"another user's": {
			func(_ *testing.T, base string) (string, error) {
				return filepath.Join(base, "x"), os.Chmod(base, 0o555)
			},
			false,
			[]string{"permission denied", "choose another"},
		},
		"another user's, and there": {
			func(_ *testing.T, base string) (string, error) { return base, os.Chmod(base, 0o555) },
			false,
			[]string{"cannot be written to", "permission denied", "make it writable"},
		},
		"read-only": {
			func(t *testing.T, base string) (string, error) { return base, mount(t, base, syscall.MS_RDONLY) },
			true,
			[]string{"read-only file system", "choose another"},
		},
		"full": {func(t *testing.T, base string) (string, error) {
			err := mount(t, base, 0)
			if full := os.WriteFile(filepath.Join(base, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(full, syscall.ENOSPC) {
				t.Fatalf("the disk is not full: %v", full)
			}
			return base, errors.Join(err, os.Chmod(base, 0o777|os.ModeSticky))
		}, true, []string{"no space left on device", "make room"}},
		"open to all": {
			func(_ *testing.T, base string) (string, error) { return base, os.Chmod(base, 0o777) },
			false,
			[]string{"its mode 0777 lets others", "chmod go-w", "chmod +t", "a folder of your own"},
		},
		"shared as /tmp is": {
			func(_ *testing.T, base string) (string, error) { return base, os.Chmod(base, 0o777|os.ModeSticky) }, false, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("a read-only or full disk is a mount of the test's own, for which the kernel wants root")
			}
			base := filepath.Join(t.TempDir(), "base")
			for _, err := range []error{
				os.Mkdir(base, 0o755), os.Chmod(base, 0o777),
				os.Chmod(filepath.Dir(base), 0o755), os.Chmod(filepath.Dir(filepath.Dir(base)), 0o755), // the way to it
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			dir, err := c.prepare(t, base)
			if err != nil {
				t.Fatal(err)
			}
			err = asOrdinaryUser(c.want != nil, func() error { return prepareCheckpointDir(dir) })
			if (err == nil) != (c.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, words := range append(c.want, "checkpoint dir "+dir) {
				if err != nil && !strings.Contains(err.Error(), words) {
					t.Errorf("%q does not say %q", err, words)
				}
			}
		})
	}
}

func mount(t *testing.T, dir string, flags uintptr) error {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, "size=64k"); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// asOrdinaryUser runs f without root's rights on files, on a thread that ends with it.
func asOrdinaryUser(without bool, f func() error) error {
	if !without || os.Geteuid() != 0 {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		const unprivileged = 65534
		runtime.LockOSThread() // never unlocked
		if err := syscall.Setfsuid(unprivileged); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}
