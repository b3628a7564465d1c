package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"golang.org/x/sys/unix"
)

// restoredRevisions is how far the revision of restored data jumps: beyond
// whatever was written after the snapshot, so that whoever has seen that lists
// anew instead of waiting for a past that will not come again.
const restoredRevisions = 1_000_000_000

// Snapshot writes all data of one member to a file, which must not exist, and
// returns how many bytes that were. The file is complete, checked and on disk, or
// not there.
func (s *Store) Snapshot(ctx context.Context, path string) (size int64, err error) {
	if _, err = os.Lstat(path); err == nil {
		return 0, fmt.Errorf("write snapshot: %s exists: choose another name", path)
	}
	from, err := s.client.Snapshot(ctx)
	if err != nil {
		return 0, fmt.Errorf("read snapshot: %w", named(err))
	}
	defer from.Close()
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return 0, fmt.Errorf("write snapshot: %w", err)
	}
	sum := &trailer{whole: sha256.New()}
	size, err = io.Copy(io.MultiWriter(file, sum), from)
	if err == nil {
		err = sum.check()
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = publish(file.Name(), path)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("write snapshot %s: %w", path, err), os.Remove(file.Name()))
	}
	if err = syncDir(filepath.Dir(path)); err != nil {
		return 0, fmt.Errorf("write snapshot %s: %w", path, err)
	}
	return size, nil
}

// publish renames a file to a name that nobody else has. Where the file system
// cannot do that at once, as NFS, the name is taken with an empty file first.
func publish(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
		return publishSlowly(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

func publishSlowly(from, to string) error {
	taken, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = taken.Close(); err == nil {
		err = os.Rename(from, to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// trailer checks a stream that ends with its own digest.
type trailer struct {
	whole hash.Hash
	last  []byte // the last bytes so far, which are the digest if nothing follows
}

// Write implements io.Writer.
func (t *trailer) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	if n := len(t.last) - sha256.Size; n > 0 {
		t.whole.Write(t.last[:n])
		t.last = append(t.last[:0], t.last[n:]...)
	}
	return len(p), nil
}

func (t *trailer) check() error {
	if !bytes.Equal(t.whole.Sum(nil), t.last) {
		return errors.New("its digest is another than etcd's: it arrived damaged or in part: try again")
	}
	return nil
}

// Restore makes the data directory of one member out of a snapshot, for a cluster
// of cfg.Members that begins anew with it: each of them is restored from the same
// file, and started after that. Restored by root, the files get the owner that the
// directory has: whom the coordinator runs as.
func Restore(cfg EmbeddedConfig, file string) (err error) {
	cfg.Name = cmp.Or(cfg.Name, "bellows")
	if cfg.hasData() || cfg.hasDatabase() {
		return fmt.Errorf("restore %s: %s has data already: move it away, or choose another directory", file, cfg.DataDir)
	}
	if _, err = os.Stat(file); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	dir, err := openDataDir(cfg.DataDir, cfg.Name, cfg.Member)
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), giveToOwner(cfg.DataDir))
	}
	defer func() {
		err = errors.Join(err, giveToOwner(cfg.DataDir), dir.close())
	}()
	data := filepath.Join(cfg.DataDir, etcdDir)
	// It is restored beside, so that what is cut short is not taken for data.
	beside := data + ".restoring"
	if err = errors.Join(os.RemoveAll(beside), os.RemoveAll(data)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	own, initial := cfg.restored()
	err = snapshot.NewV3(zapTo(cfg.Log)).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, Name: own.Name, OutputDataDir: beside,
		PeerURLs: []string{own.URL}, InitialCluster: initial, InitialClusterToken: cfg.Name,
		RevisionBump: restoredRevisions, MarkCompacted: true,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("restore %s: %w", file, err), os.RemoveAll(beside))
	}
	if err = os.Rename(beside, data); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return syncDir(cfg.DataDir)
}

// giveToOwner gives what root has made in a data directory the directory's owner.
func giveToOwner(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var owner unix.Stat_t
	if err := unix.Stat(path, &owner); err != nil {
		return fmt.Errorf("find the owner of %s: %w", path, err)
	}
	root, err := os.OpenRoot(path) // so that no link leads out of it
	if err != nil {
		return fmt.Errorf("give files their owner: %w", err)
	}
	defer root.Close()
	for _, top := range []string{clusterFile, memberFile, etcdDir} {
		err := fs.WalkDir(root.FS(), top, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return root.Lchown(name, int(owner.Uid), int(owner.Gid))
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("give files the owner of %s: %w", path, err)
		}
	}
	return nil
}

// restored is this member, and all of them, as they begin.
func (c EmbeddedConfig) restored() (own Member, initial string) {
	own, ok := c.own()
	if !ok {
		own = Member{Name: cmp.Or(c.Member, c.Name), URL: "http://" + loneAddress}
		return own, initialCluster([]Member{own})
	}
	return own, initialCluster(c.Members)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	err = dir.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // file systems that know no such thing, as CIFS: it writes names at once
	}
	return errors.Join(err, dir.Close())
}
