package checkpoint

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// Blobs is where a job's checkpoints lie: a tree of files. Names are
// slash-separated and relative to its root, "." being the root; a name that
// leads outside, also by a symbolic link, is refused. Safe for concurrent use.
// Errors for what is not there satisfy errors.Is(err, fs.ErrNotExist).
type Blobs interface {
	// List returns the entries of one directory, sorted by name.
	List(dir string) ([]Entry, error)
	// Open opens a file for reading and for Sync, or a directory for Sync alone.
	Open(name string) (File, error)
	// Put writes a whole file into an existing directory. When it returns nil,
	// the file survives a power cut; when it does not, the file is as it was before or
	// complete, never in between.
	Put(name string, data []byte) error
	// Delete removes a file, or a directory and all below it. It vanishes from its
	// place at once, however long the removal takes; a crash leaves only litter.
	Delete(name string) error
}

// File is an open file of Blobs.
type File interface {
	io.ReadCloser
	// Sync makes durable what was written to the file by anybody. After an
	// error nothing is known of it any more, and a second Sync that succeeds
	// means nothing: the kernel has forgotten the lost pages.
	Sync() error
}

// Kind says what an Entry is.
type Kind uint8

// The kinds of entries.
const (
	Regular   Kind = iota // a plain file
	Directory             // a directory
	Irregular             // a symbolic link, device, pipe or socket: none of them belongs into a checkpoint
)

// Entry is one name in a directory.
type Entry struct {
	Name  string // without its directory
	Kind  Kind
	Bytes int64 // of a regular file
}

// CheckPath reports whether a file name in a manifest is one that could lead
// out of the checkpoint, or that is written in more than one way.
func CheckPath(name string) error {
	switch {
	case name == "" || name == "." || path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "../") || name == "..":
		return fmt.Errorf("path %q: use a clean path relative to the checkpoint's directory", name)
	case strings.ContainsAny(name, "\x00\n"):
		return fmt.Errorf("path %q: it holds a NUL or a newline", name)
	}
	return nil
}
