package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/store"
)

const (
	etcdDir     = "etcd"    // below the data directory: etcd's own
	clusterFile = "cluster" // beside it: the cluster's name; the process that uses the directory holds its lock
	memberFile  = "member"  // and the member's name, with several members
)

// lockTimeout bounds the wait for a database that another process has locked: an etcd that Bellows did not start.
const lockTimeout = time.Second

// damagedRemedy tells the operator what to do about data that cannot be read.
const damagedRemedy = "if the data is damaged, restore it from a backup, or move it away to begin with an empty one"

const (
	// leastRoom is the free disk space that a start requires: etcd writes to its
	// database at once, and a server that fails at that would be restarted in a loop.
	leastRoom  = 32 << 20
	fullRemedy = "make room there and start it again; nothing is lost"
)

// roomFor refuses a disk that is almost full.
func roomFor(path string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", path, err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < leastRoom {
		return fmt.Errorf("%w: %d MiB are free and %d are needed: %s", unix.ENOSPC, free>>20, leastRoom>>20, fullRemedy)
	}
	return nil
}

// isFull reports whether the cause is a full disk, even where etcd has kept only the text.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), unix.ENOSPC.Error())
}

// ErrDataDirInUse means that another process has the data directory.
var ErrDataDirInUse = errors.New("in use by another process: stop that one, or choose another directory")

// dataDir is a data directory that this process has locked.
type dataDir struct{ file *os.File }

// openDataDir creates the directory if necessary, locks it for this process, and
// refuses the directory of another cluster or member. etcd itself would wait forever
// for a directory in use, and would serve another cluster's data.
func openDataDir(path, cluster, member string) (*dataDir, error) {
	if path == "" {
		return nil, errors.New("no data directory: name one")
	}
	if err := os.MkdirAll(filepath.Join(path, etcdDir), 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(path, clusterFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	d := &dataDir{file}
	err = d.claim(path, cluster)
	if err == nil && member != "" {
		err = claimMember(path, member)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *dataDir) claim(path, cluster string) error {
	if err := unix.Flock(int(d.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrDataDirInUse
		}
		return fmt.Errorf("data directory %s: %w", path, err)
	}
	owner, err := os.ReadFile(d.file.Name())
	if err != nil {
		return fmt.Errorf("read whose data directory %s is: %w", path, err)
	}
	if owner = bytes.TrimSpace(owner); len(owner) > 0 && string(owner) != cluster {
		return store.Unfitf("data directory %s holds cluster %q, not %q: choose another directory, or that cluster's name", path, owner, cluster)
	}
	if err := checkDatabase(filepath.Join(path, etcdDir, "member", "snap", "db")); err != nil {
		return fmt.Errorf("data directory %s: %w", path, err)
	}
	if len(owner) > 0 {
		return nil
	}
	if _, err := d.file.WriteAt([]byte(cluster+"\n"), 0); err != nil {
		return fmt.Errorf("write %s: %w", d.file.Name(), err)
	}
	return d.file.Sync()
}

// claimMember refuses the data of another member. The data of a single server have
// no member's name yet and get this one.
func claimMember(path, member string) error {
	name := filepath.Join(path, memberFile)
	owner, err := os.ReadFile(name)
	owner = bytes.TrimSpace(owner)
	switch {
	case err == nil && string(owner) == member:
		return nil
	case err == nil && len(owner) > 0:
		return store.Unfitf("data directory %s is of member %q, not %q: choose another directory, or that member's name", path, owner, member)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read whose data directory %s is: %w", path, err)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write whose data directory %s is: %w", path, err)
	}
	_, err = file.WriteString(member + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write whose data directory %s is: %w", path, err)
	}
	return nil
}

// checkDatabase opens etcd's database and closes it again. Where this fails, etcd
// would end the process; where the file is locked, etcd would wait forever.
func checkDatabase(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return ErrDataDirInUse
	case err != nil:
		return fmt.Errorf("open %s: %w: %s", path, err, damagedRemedy)
	}
	return db.Close()
}

// close unlocks the directory. It unlocks by itself: a process that another
// goroutine is just starting has a copy of each file until it executes its
// program, and would keep the lock for as long.
func (d *dataDir) close() error {
	if err := errors.Join(unix.Flock(int(d.file.Fd()), unix.LOCK_UN), d.file.Close()); err != nil {
		return fmt.Errorf("unlock the data directory: %w", err)
	}
	return nil
}
