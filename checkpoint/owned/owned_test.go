package owned_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/checkpoint/owned"
)

const stranger = 65534 // a user that the test is not

// give makes a path another user's.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away, and only that is tested here")
	}
	if err := os.Lchown(path, stranger, stranger); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, mode os.FileMode, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refused demands a refusal for the right reason, in words that help.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, owned.ErrForeign) {
		t.Errorf("%v, want a refusal for what other users could do", err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestBases(t *testing.T) {
	t.Parallel()
	base := mkdir(t, 0o755, t.TempDir(), "base")
	for mode, ok := range map[os.FileMode]bool{
		0o755: true, 0o700: true, 0o755 | os.ModeSetgid: true,
		0o777 | os.ModeSticky: true, 0o775 | os.ModeSticky | os.ModeSetgid: true,
		0o777: false, 0o757: false,
	} {
		if err := os.Chmod(base, mode); err != nil {
			t.Fatal(err)
		}
		err := owned.CheckBase(base)
		if ok && err != nil {
			t.Errorf("mode %v: %v", mode, err)
		}
		if !ok {
			refused(t, err, "0"+strings.TrimPrefix(octal(mode), "0"), "chmod go-w "+base, "chmod +t "+base, "folder of your own")
		}
	}
	if err := owned.CheckBase(filepath.Join(base, "none")); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, owned.ErrForeign) {
		t.Errorf("none: %v", err)
	}
	if err := owned.CheckBase("/etc/passwd"); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
	for _, kernels := range []string{"/proc/sys/kernel", "/sys/kernel"} {
		refused(t, owned.CheckBase(kernels), "file system of the kernel's")
	}
	if err := os.Chmod(base, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	give(t, base)
	refused(t, owned.CheckBase(base), "belongs to", "(uid 65534)", "folder of your own")
}

func octal(mode os.FileMode) string {
	const digits = "01234567"
	p := mode.Perm()
	return string([]byte{digits[p>>6&7], digits[p>>3&7], digits[p&7]})
}

// A group that bears its user's name is the user's alone, and such users have a umask of 002;
// another group is not, nor one beside which a list gives rights to others.
func TestAUsersOwnGroupMayWrite(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("who runs the tests may have another kind of group; root's is its own everywhere")
	}
	base := mkdir(t, 0o775, t.TempDir(), "base")
	job := mkdir(t, 0o775, base, "job")
	both := func() [2]error { return [2]error{owned.CheckBase(base), opened(base)} }
	if got := both(); got != [2]error{} {
		t.Errorf("its own group: %v", got)
	}
	for _, dir := range []string{base, job} {
		if err := unix.Setxattr(dir, "system.posix_acl_access", acl(), 0); err != nil {
			t.Logf("no access control lists here: %v", err)
			break
		}
		refused(t, opened(base), dir, "0775")
		if err := unix.Removexattr(dir, "system.posix_acl_access"); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{base, job} {
		if err := os.Chown(dir, -1, stranger); err != nil {
			t.Fatal(err)
		}
		refused(t, opened(base), dir, "0775")
		if err := os.Chown(dir, -1, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// acl lets the stranger write, as the kernel encodes it.
func acl() []byte {
	list := []byte{2, 0, 0, 0}
	for _, e := range []struct {
		tag, perm byte
		id        uint32
	}{{1, 7, 0xffffffff}, {2, 7, stranger}, {4, 5, 0xffffffff}, {0x10, 7, 0xffffffff}, {0x20, 5, 0xffffffff}} {
		list = append(list, e.tag, 0, e.perm, 0, byte(e.id), byte(e.id>>8), byte(e.id>>16), byte(e.id>>24))
	}
	return list
}

// opened makes and opens <base>/job/gen.
func opened(base string) error {
	job, err := owned.Make(filepath.Join(base, "job"))
	if err != nil {
		return err
	}
	gen, err := owned.Enter(job, "gen", true)
	if err == nil {
		err = gen.Close()
	}
	return errors.Join(err, job.Close())
}

func TestFoldersBelowTheBase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, base string)
		words []string // nil = fine
	}{
		"nothing there":    {func(*testing.T, string) {}, nil},
		"no base either":   {func(t *testing.T, base string) { _ = os.Remove(base) }, nil},
		"its owner's":      {func(t *testing.T, base string) { mkdir(t, 0o755, base, "job", "gen") }, nil},
		"a link to a base": {func(t *testing.T, base string) { swap(t, base) }, nil},
		"a stranger's job": {
			func(t *testing.T, base string) { give(t, mkdir(t, 0o755, base, "job")) },
			[]string{"/job belongs to", "(uid 65534)", "not to the job's owner", "have it removed"},
		},
		"a stranger's generation": {
			func(t *testing.T, base string) { give(t, mkdir(t, 0o777, base, "job", "gen")) },
			[]string{"/job/gen belongs to", "(uid 65534)"},
		},
		"a job for all": {
			func(t *testing.T, base string) { mkdir(t, 0o777, base, "job") },
			[]string{"/job has mode 0777", "chmod -R go-w"},
		},
		"a generation for the group": {
			func(t *testing.T, base string) { share(t, mkdir(t, 0o755, base, "job", "gen")) },
			[]string{"/job/gen has mode 2775", "umask of 022"},
		},
		"a sticky job is no base": {
			func(t *testing.T, base string) { mkdir(t, 0o777|os.ModeSticky, base, "job") },
			[]string{"/job has mode 1777"},
		},
		"a job elsewhere": {
			func(t *testing.T, base string) { link(t, mkdir(t, 0o755, base, "..", "other"), base, "job") },
			[]string{"/job is a symbolic link to", "remove the link"},
		},
		"a generation elsewhere in the base": {
			func(t *testing.T, base string) { link(t, mkdir(t, 0o755, base, "job", "old"), base, "job", "gen") },
			[]string{"/job/gen is a symbolic link to", "remove the link"},
		},
		"a base for all": {
			func(t *testing.T, base string) { mkdir(t, 0o777, base) },
			[]string{"0777", "chmod +t"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := mkdir(t, 0o755, t.TempDir(), "base")
			c.spoil(t, base)
			switch err := opened(base); {
			case c.words != nil:
				refused(t, err, c.words...)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

func link(t *testing.T, to string, path ...string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(path...)), 0o755), os.Symlink(to, filepath.Join(path...))); err != nil {
		t.Fatal(err)
	}
}

// share lets a group write to a folder that is not the owner's alone.
func share(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root is sure to have another group's folder, and only that is tested here")
	}
	if err := errors.Join(os.Chown(dir, -1, stranger), os.Chmod(dir, 0o775|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
}

// swap puts a link in the place of a folder.
func swap(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.Rename(dir, dir+"-real"), os.Symlink(dir+"-real", dir)); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsMadeIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	base := mkdir(t, 0o755, t.TempDir(), "base")
	if err := opened(base); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"job", "job/gen"} {
		info, err := os.Stat(filepath.Join(base, dir))
		if err != nil || info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
}

func TestEveryFolderOnTheWayCounts(t *testing.T) {
	t.Parallel()
	base := mkdir(t, 0o755, t.TempDir(), "base")
	deep := mkdir(t, 0o755, base, "job", "gen", "step-5", "rank-00000")
	job, err := owned.Open(filepath.Join(base, "job"))
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	const way = "gen/step-5/rank-00000"
	if err = owned.Check(job, way); err != nil {
		t.Fatal(err)
	}
	for dir := deep; filepath.Base(dir) != "job"; dir = filepath.Dir(dir) {
		if err = os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		refused(t, owned.Check(job, way), dir, "mode 0777")
		if err = os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err = owned.Check(job, "gen/step-6"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}
