package owned

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/internal/userdb"
)

// ErrForeign is wrapped where another user than the owner has made what is there, or could exchange it.
var ErrForeign = errors.New("another user could exchange what is saved there")

// foreign is a refusal in words, and answers to errors.Is(err, ErrForeign).
func foreign(format string, args ...any) error {
	return &foreignError{fmt.Sprintf(format, args...)}
}

type foreignError struct{ text string }

func (e *foreignError) Error() string { return e.text }
func (e *foreignError) Unwrap() error { return ErrForeign }

// othersWrite reports whether a user other than the owner may change a file or
// the names in a folder. A POSIX access control list that lets anybody write shows
// among the group's permissions, as its mask. A group that is the owner's alone is
// the owner: systems that give each user one set a umask of 002.
func othersWrite(info fs.FileInfo, gid uint32, list func() (int, error)) bool {
	switch perm := info.Mode().Perm(); {
	case perm&0o002 != 0:
		return true
	case perm&0o020 == 0:
		return false
	case int(gid) != os.Getegid() || !alone():
		return true
	}
	n, err := list()
	return err == nil && n > 0
}

// alone reports whether this process's group bears its user's name.
var alone = sync.OnceValue(func() bool {
	u, errUser := user.LookupId(strconv.Itoa(os.Geteuid()))
	g, errGroup := user.LookupGroupId(strconv.Itoa(os.Getegid()))
	return errUser == nil && errGroup == nil && u.Username == g.Name
})

// aclName is where Linux keeps a file's access control list.
const aclName = "system.posix_acl_access"

// CheckBase reports why a job's checkpoints must not lie below this folder, which
// may be a link to one. It may be shared by all as /tmp is, but only so: the owner
// of the folder, if not root, and those who may write to one without the sticky
// bit can rename what others have made in it.
func CheckBase(base string) error {
	f, err := os.Open(base)
	if err != nil {
		return plain(err)
	}
	defer f.Close()
	return checkBase(f, base)
}

func checkBase(f *os.File, base string) error {
	info, err := f.Stat()
	if err != nil {
		return plain(err)
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode()
	const instead = "use a folder of your own, also one below it"
	switch {
	case !ok || !info.IsDir():
		return errors.New("it is not a directory")
	case int(s.Uid) != os.Geteuid() && s.Uid != 0:
		return foreign("it belongs to %s, who can exchange what is in it: %s", who(s.Uid), instead)
	case mode&fs.ModeSticky == 0 && othersWrite(info, s.Gid, func() (int, error) { return unix.Fgetxattr(int(f.Fd()), aclName, nil) }):
	default:
		return checkKind(f)
	}
	return foreign("its mode %s lets others than its owner exchange what is in it: chmod go-w %s or, if it is to be shared, chmod +t %s; or %s",
		octal(mode), base, base, instead)
}

// kernelKinds are file systems whose files are the kernel's switches and not
// anybody's data.
var kernelKinds = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
	unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.EFIVARFS_MAGIC, unix.BINFMTFS_MAGIC,
}

func checkKind(f *os.File) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return fmt.Errorf("ask for its file system: %w", err)
	}
	if slices.Contains(kernelKinds, s.Type) {
		return foreign("it lies in a file system of the kernel's (type %#x): use a folder on a disk", s.Type)
	}
	return nil
}

// Open opens a job's folder, <base>/<job>, which has to be the owner's. The caller closes it.
func Open(dir string) (*os.Root, error) {
	base, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, plain(err)
	}
	defer base.Close()
	above, err := base.Open(".")
	if err != nil {
		return nil, plain(err)
	}
	defer above.Close()
	if err = checkBase(above, base.Name()); err != nil {
		return nil, fmt.Errorf("%s: %w", base.Name(), err)
	}
	return enter(base, filepath.Base(dir))
}

// Make is Open for a folder that is made if it is not there yet.
func Make(dir string) (*os.Root, error) {
	r, err := Open(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if err = os.MkdirAll(filepath.Dir(dir), newFolder); err != nil {
		return nil, err
	}
	if err = os.Mkdir(dir, newFolder); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, plain(err)
	}
	return Open(dir)
}

// newFolder are the permissions of folders that are made here.
const newFolder = 0o755

// Enter opens a folder of a job's folder, which has to be the owner's too, and is
// made if it is not there and create is set. The caller closes it.
func Enter(root *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		if err := root.Mkdir(name, newFolder); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, plain(err)
		}
	}
	return enter(root, name)
}

func enter(above *os.Root, name string) (*os.Root, error) {
	full := filepath.Join(above.Name(), name)
	named, err := above.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", full, plain(err))
	}
	if err = judge(named, above, name); err != nil {
		return nil, err
	}
	r, err := above.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", full, plain(err))
	}
	if err = confirm(r, named, full); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// confirm demands that what was opened is what was judged, and is no folder of the kernel's.
func confirm(r *os.Root, named fs.FileInfo, full string) error {
	f, err := r.Open(".")
	if err != nil {
		return fmt.Errorf("%s: %w", full, plain(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(info, named):
		err = foreign("it was exchanged while it was looked at: find out by whom")
	default:
		if err = checkKind(f); err == nil {
			return CheckFile(info, full)
		}
	}
	return fmt.Errorf("%s: %w", full, err)
}

// Check demands that every folder on the way from root to name, which is included
// and slash-separated, is the owner's. Below an owned root no other user can change
// that afterwards.
func Check(root *os.Root, name string) error {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == "" {
			continue
		}
		at = filepath.Join(at, part)
		info, err := root.Lstat(at)
		if err != nil {
			return err
		}
		if err = judge(info, root, at); err != nil {
			return err
		}
	}
	return nil
}

// judge says of a folder below the base whether it is the owner's alone.
func judge(info fs.FileInfo, root *os.Root, name string) error {
	full := filepath.Join(root.Name(), name)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := root.Readlink(name)
		return foreign("%s is a symbolic link to %s: remove the link", full, to)
	case !info.IsDir():
		return fmt.Errorf("%s: it is not a directory", full)
	}
	return CheckFile(info, full)
}

// CheckFile says of what was found in an owned folder whether it is the owner's
// alone as well. full is its path.
func CheckFile(info fs.FileInfo, full string) error {
	s, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return foreign("%s: this system does not say whom it belongs to", full)
	case int(s.Uid) != os.Geteuid():
		return foreign("%s belongs to %s and not to the job's owner, %s: have it removed, or use a base directory in which only the owner can make folders",
			full, who(s.Uid), who(uint32(os.Geteuid()))) //nolint:gosec // a uid is not negative
	case othersWrite(info, s.Gid, func() (int, error) { return unix.Lgetxattr(full, aclName, nil) }):
		return foreign("%s has mode %s, which lets others than its owner write to it: chmod -R go-w it, and let the script save with a umask of 022, which it is started with",
			full, octal(info.Mode()))
	}
	return nil
}

// octal is a mode as chmod takes it.
func octal(mode fs.FileMode) string {
	n := uint32(mode.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSticky: 0o1000, fs.ModeSetgid: 0o2000, fs.ModeSetuid: 0o4000} {
		if mode&flag != 0 {
			n |= bit
		}
	}
	return fmt.Sprintf("%04o", n)
}

func who(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if name, err := userdb.Name(context.Background(), uid); err == nil {
		return name + " (uid " + number + ")"
	}
	return "uid " + number
}

// plain is the system's word without the path, which the caller says.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
