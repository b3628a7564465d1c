package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/internal/durable"
)

// restoredRevisions is how far the revision of restored data jumps: beyond
// everything written after the snapshot. A client that has seen a later revision
// then lists again instead of waiting for a revision that never comes.
const restoredRevisions = 1_000_000_000

// Restore creates the data directory of one member from a snapshot, for a new
// cluster of cfg.Members that starts with these data. Restore each member from the
// same file before starting any. If root restores, the files get the owner of the
// directory, which is the user that the coordinator runs as.
func Restore(cfg Config, file string) (err error) {
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
	// An interrupted restore must not look like data, so it happens under another name.
	beside := data + ".restoring"
	if err = errors.Join(os.RemoveAll(beside), os.RemoveAll(data)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	own, initial := cfg.restored()
	err = snapshot.NewV3(zapTo(cfg.Log, zapcore.WriteThenPanic)).Restore(snapshot.RestoreConfig{
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
	return durable.SyncDir(cfg.DataDir)
}

// giveToOwner changes the owner of the files that root has created in a data
// directory to the owner of the directory.
func giveToOwner(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var owner unix.Stat_t
	if err := unix.Stat(path, &owner); err != nil {
		return fmt.Errorf("find the owner of %s: %w", path, err)
	}
	root, err := os.OpenRoot(path) // follows no link out of it
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

// restored returns this member and the initial members of the restored cluster.
func (c Config) restored() (own Member, initial string) {
	own, ok := c.own()
	if !ok {
		own = Member{Name: cmp.Or(c.Member, c.Name), URL: "http://" + singlePeerAddress}
		return own, initialCluster([]Member{own})
	}
	return own, initialCluster(c.Members)
}
