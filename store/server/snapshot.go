package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/internal/durable"
	"github.com/bellows-ml/bellows/store"
)

// Snapshot writes all data of one member to a new file and returns its size. On
// success the file is complete, verified and synced; on failure it does not exist.
func (a *Admin) Snapshot(ctx context.Context, path string) (size int64, err error) {
	if _, err = os.Lstat(path); err == nil {
		return 0, fmt.Errorf("write snapshot: %s exists: choose another name", path)
	}
	from, err := a.client.Snapshot(ctx)
	if err != nil {
		return 0, fmt.Errorf("read snapshot: %w", store.Named(err))
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
	if err = durable.SyncDir(filepath.Dir(path)); err != nil {
		return 0, fmt.Errorf("write snapshot %s: %w", path, err)
	}
	return size, nil
}

// publish renames a file and refuses to replace an existing one. On file systems
// that cannot do both at once, such as NFS, it reserves the name with an empty file.
func publish(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
		return publishReserved(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

func publishReserved(from, to string) error {
	reserved, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = reserved.Close(); err == nil {
		err = os.Rename(from, to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// trailer verifies a stream that ends with its own digest.
type trailer struct {
	whole hash.Hash
	last  []byte // the last bytes so far: the digest, if the stream ends here
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
