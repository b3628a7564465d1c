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
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
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
		err = os.Link(file.Name(), path) // unlike a renaming, never over another file
	}
	err = errors.Join(err, os.Remove(file.Name()))
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return 0, fmt.Errorf("write snapshot %s: %w", path, err)
	}
	return size, nil
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
// file, and started after that.
func Restore(cfg EmbeddedConfig, file string) error {
	cfg.Name = cmp.Or(cfg.Name, "bellows")
	if cfg.hasData() {
		return fmt.Errorf("restore %s: %s has data already: move it away, or choose another directory", file, cfg.DataDir)
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	dir, err := openDataDir(cfg.DataDir, cfg.Name, cfg.Member)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer dir.close() //nolint:errcheck // nothing was written through it
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
	return errors.Join(dir.Sync(), dir.Close())
}
