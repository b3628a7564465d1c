package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// readers is how many files are read at once: enough for any disk and for
// several processors, few enough to leave a node that trains in peace.
const readers = 8

// blockBytes is how much of a file is held in memory while it is digested, for each reader.
const blockBytes = 128 << 10

// Digest makes durable and lists what ranks have saved in a checkpoint's
// directory; with no ranks given, all that a plain script left there. Paths are
// relative to dir. The files must not change any more.
//
// An error of the disk fails the checkpoint for good: do not digest the same
// files again, because an fsync that failed once may well succeed the second
// time without the data being there.
func Digest(ctx context.Context, b Blobs, dir string, ranks []int) ([]record.File, error) {
	found, err := walkAll(b, dir, ranks)
	if err != nil {
		return nil, err
	}
	err = inParallel(ctx, len(found.files), func(i int) error { return fill(ctx, b, dir, &found.files[i]) })
	if err != nil {
		return nil, err
	}
	// The names too must survive a power cut: those in the checkpoint, and its
	// own in the directories above it.
	dirs := []string{dir}
	for _, sub := range found.dirs {
		dirs = append(dirs, path.Join(dir, sub))
	}
	for above := dir; above != "."; {
		above = path.Dir(above)
		dirs = append(dirs, above)
	}
	if err := inParallel(ctx, len(dirs), func(i int) error { return syncDir(b, dirs[i]) }); err != nil {
		return nil, err
	}
	slices.SortFunc(found.files, func(a, b record.File) int { return strings.Compare(a.Path, b.Path) })
	return found.files, nil
}

// fill makes one listed file durable and adds its digest.
func fill(ctx context.Context, b Blobs, dir string, f *record.File) error {
	name := path.Join(dir, f.Path)
	sum, n, err := digestFile(ctx, b, name, true)
	if err == nil && n != f.Bytes {
		err = fmt.Errorf("digest %s: it had %d bytes and then %d: it must not change after it was saved", name, f.Bytes, n)
	}
	f.SHA256 = sum
	return err
}

// tree is what lies below a directory: files without digests yet, and directories.
type tree struct {
	files []record.File
	dirs  []string
}

func walkAll(b Blobs, dir string, ranks []int) (found tree, err error) {
	if len(ranks) == 0 {
		return found, found.walk(b, dir, "")
	}
	for _, rank := range ranks {
		if err = found.walk(b, dir, layout.Rank(rank)); err != nil {
			return tree{}, err
		}
	}
	return found, nil
}

// walk adds what lies at and below root/sub.
func (t *tree) walk(b Blobs, root, sub string) error {
	entries, err := b.List(path.Join(root, sub))
	if err != nil {
		return fmt.Errorf("list %s: %w", path.Join(root, sub), err)
	}
	if sub != "" {
		t.dirs = append(t.dirs, sub)
	}
	for _, e := range entries {
		name := path.Join(sub, e.Name)
		if sub == "" && !saved(e) {
			continue
		}
		switch e.Kind {
		case Regular:
			t.files = append(t.files, record.File{Path: name, Bytes: e.Bytes})
		case Directory:
			if err := t.walk(b, root, name); err != nil {
				return err
			}
		case Irregular:
			return fmt.Errorf("list %s: it is a link or a special file: save plain files only", path.Join(root, name))
		}
	}
	return nil
}

// digestFile reads a file once. The disk writes it out meanwhile, if asked to make it durable.
func digestFile(ctx context.Context, b Blobs, name string, durable bool) (digest string, n int64, err error) {
	f, err := b.Open(name)
	if err != nil {
		return "", 0, fmt.Errorf("open %s: %w", name, err)
	}
	synced := make(chan error, 1)
	if durable {
		go func() { synced <- f.Sync() }()
	} else {
		synced <- nil
	}
	sum := sha256.New()
	n, err = io.CopyBuffer(sum, untilDone{ctx, f}, make([]byte, blockBytes))
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	if syncErr := <-synced; syncErr != nil {
		err = errors.Join(err, fmt.Errorf("sync %s: %w", name, syncErr))
	}
	if closeErr := f.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close %s: %w", name, closeErr)
	}
	return hex.EncodeToString(sum.Sum(nil)), n, err
}

// untilDone reads no further once its context is done.
type untilDone struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

func syncDir(b Blobs, dir string) error {
	f, err := b.Open(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	err = f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// inParallel calls do for 0 … n-1, several at a time, and returns the error of
// the lowest that failed. It begins nothing new after a failure, and returns
// when all that it began has ended.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(readers, n) {
		wg.Go(func() {
			for i := range next {
				if errs[i] = do(i); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			errs[i] = ctx.Err()
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	return firstCause(errs)
}

// firstCause prefers a failure to the cancellations that followed from it.
func firstCause(errs []error) error {
	var cancelled error
	for _, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled):
			if cancelled == nil {
				cancelled = err
			}
		default:
			return err
		}
	}
	return cancelled
}
