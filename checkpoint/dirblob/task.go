package dirblob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/checkpoint/owned"
	"github.com/bellows-ml/bellows/record"
)

// Task is one piece of work on a job's checkpoints. Exactly one of the
// pointers, Delete, Room or Probe is set. Directories are relative to Root.
type Task struct {
	Root     string             `json:"root"` // the job's checkpoint directory, absolute
	Digest   *Digest            `json:"digest,omitempty"`
	Write    *Write             `json:"write,omitempty"`
	Assemble *Assemble          `json:"assemble,omitempty"`
	Verify   *Verify            `json:"verify,omitempty"`
	Find     *checkpoint.Search `json:"find,omitempty"`
	Delete   string             `json:"delete,omitempty"`
	Retain   *checkpoint.Retain `json:"retain,omitempty"`
	Room     bool               `json:"room,omitempty"` // how much its file system has left
	// Probe is who asks whether Root, or what is there of its path, can be written
	// to, and how much its file system has left. Two that ask at once have two names.
	Probe string `json:"probe,omitempty"`
}

// Kind names what is asked for, for those who keep tasks apart by it.
func (t Task) Kind() string {
	switch {
	case t.Digest != nil:
		return "digest"
	case t.Write != nil:
		return "write"
	case t.Assemble != nil:
		return "assemble"
	case t.Verify != nil:
		return "verify"
	case t.Find != nil:
		return "find"
	case t.Retain != nil:
		return "retain"
	case t.Delete != "":
		return "delete"
	case t.Room:
		return "room"
	}
	return "probe"
}

// Digest asks for checkpoint.Digest.
type Digest struct {
	Dir   string `json:"dir"`
	Ranks []int  `json:"ranks,omitempty"` // none: all that a plain script left
	// Part is whose files these are, where a list too long for a record is to be
	// left beside them; none: it is answered whatever its length.
	Part []int `json:"part,omitempty"`
}

// Assemble asks for checkpoint.Assemble.
type Assemble struct {
	Dir   string           `json:"dir"`
	Title checkpoint.Title `json:"title"`
	Parts []record.Saved   `json:"parts"`
}

// Write asks for checkpoint.Write. Agents of versions that merged by themselves
// ask for it while their program has been replaced beneath them.
type Write struct {
	Dir      string              `json:"dir"`
	Manifest checkpoint.Manifest `json:"manifest"`
	// Changes says by file of the manifest what Answer.Changed was when it was
	// digested: a file that was changed since is not what the manifest says of it.
	Changes []int64 `json:"changes,omitempty"`
}

// Verify asks for checkpoint.Verify, or checkpoint.Inspect.
type Verify struct {
	Dir            string `json:"dir"`
	ManifestSHA256 string `json:"manifest_sha256"`
	Quick          bool   `json:"quick,omitempty"` // Inspect: sizes only
	// Seal is Answer.Seal of the last time that it was known to be sound: if it is
	// the same now, the files are not read again.
	Seal string `json:"seal,omitempty"`
}

// Answer is what came of a task. Only the field that belongs to the task is set.
type Answer struct {
	Files          []record.File     `json:"files,omitempty"`           // of Digest
	Changed        int64             `json:"changed,omitempty"`         // of Digest: when the newest of them was, before they were read
	Part           *record.Part      `json:"part,omitempty"`            // of Digest, in place of Files
	ManifestSHA256 string            `json:"manifest_sha256,omitempty"` // of Write and Assemble
	Bytes          int64             `json:"bytes,omitempty"`           // of Assemble and Verify: of all files together
	Whole          bool              `json:"whole,omitempty"`           // of Verify: every file was read
	Seal           string            `json:"seal,omitempty"`            // of Write and Assemble, and of Verify where it was read as a whole
	Plain          *checkpoint.Plain `json:"plain,omitempty"`           // of Find; nil = none
	Deleted        []string          `json:"deleted,omitempty"`         // of Retain
	Room           *checkpoint.Room  `json:"room,omitempty"`            // of Room and Probe
	Fault          *Fault            `json:"fault,omitempty"`
}

// Fault is an error that has gone from one process to another and still answers
// to errors.Is(err, checkpoint.ErrAbsent), errors.Is(err, owned.ErrForeign),
// errors.As(err, **CorruptError), and errors.Is(err, syscall.ENOSPC) or another number.
type Fault struct {
	Text    string                   `json:"text"`
	Absent  bool                     `json:"absent,omitempty"`
	Foreign bool                     `json:"foreign,omitempty"` // another user could exchange what is there
	Full    bool                     `json:"full,omitempty"`    // the disk, or the user's part of it
	Errno   syscall.Errno            `json:"errno,omitempty"`   // what the system said, if it was the system
	Corrupt *checkpoint.CorruptError `json:"corrupt,omitempty"`
}

// Error returns the text of the error as it was.
func (f *Fault) Error() string { return f.Text }

// Unwrap returns what kind of error it was, if that matters to anybody.
func (f *Fault) Unwrap() error {
	switch {
	case f.Corrupt != nil:
		return f.Corrupt
	case f.Absent:
		return checkpoint.ErrAbsent
	case f.Foreign:
		return owned.ErrForeign
	case f.Full:
		return syscall.ENOSPC
	case f.Errno != 0:
		return f.Errno
	default:
		return nil
	}
}

// Do does the task in this process, as the user it runs as. The answer's Fault is nil if the error is.
func (t Task) Do(ctx context.Context) (Answer, error) {
	if !filepath.IsAbs(t.Root) {
		return fault(fmt.Errorf("checkpoint directory %q: use an absolute path", t.Root))
	}
	if t.Probe != "" {
		found, err := probe(t.Root, t.Probe)
		if err != nil {
			return fault(err)
		}
		return Answer{Room: found}, nil
	}
	d, err := Open(t.Root)
	if err != nil {
		return fault(err)
	}
	defer d.Close()
	var a Answer
	switch {
	case t.Digest != nil:
		a, err = t.Digest.do(ctx, d)
	case t.Assemble != nil:
		a, err = t.Assemble.do(d)
	case t.Write != nil:
		if a.ManifestSHA256, err = checkpoint.Write(d, t.Write.Dir, t.Write.Manifest); err == nil && len(t.Write.Changes) > 0 {
			a.Seal = d.seal(t.Write.Dir, t.Write.Manifest, t.Write.Changes)
		}
	case t.Verify != nil:
		a, err = t.Verify.do(ctx, d)
	case t.Find != nil:
		var p checkpoint.Plain
		var found bool
		if p, found, err = checkpoint.FindPlain(d, *t.Find); found {
			a.Plain = &p
		}
	case t.Delete != "":
		err = d.Delete(t.Delete)
	case t.Retain != nil:
		a.Deleted, err = d.retain(ctx, *t.Retain)
	case t.Room:
		a.Room, err = room(t.Root)
	default:
		err = errors.New("the task is empty: set one of its fields")
	}
	if err != nil {
		return fault(err)
	}
	return a, nil
}

func (g Digest) do(ctx context.Context, d *Dir) (a Answer, err error) {
	if a.Changed, err = d.lastChange(g.Dir, g.Ranks); err != nil {
		return Answer{}, err
	}
	files, err := checkpoint.Digest(ctx, d, g.Dir, g.Ranks)
	if err == nil && len(g.Part) > 0 && !checkpoint.Inline(files) {
		a.Part, err = checkpoint.WritePart(d, g.Dir, g.Part, files)
		return a, err
	}
	a.Files = files
	return a, err
}

func (m Assemble) do(d *Dir) (Answer, error) {
	manifest, digest, err := checkpoint.Assemble(d, m.Dir, m.Title, m.Parts)
	if err != nil {
		return Answer{}, err
	}
	return Answer{ManifestSHA256: digest, Bytes: manifest.Bytes(), Seal: d.seal(m.Dir, manifest, changesOf(manifest, m.Parts))}, nil
}

// changesOf says by file of a manifest when the newest of its node's files was
// changed, as far as the node's digest knew.
func changesOf(m checkpoint.Manifest, parts []record.Saved) []int64 {
	known := map[string]int64{}
	for _, p := range parts {
		for _, r := range p.Of() {
			known[layout.Rank(r)] = p.Changed
		}
	}
	changes := make([]int64, len(m.Files))
	for i, f := range m.Files {
		first, _, _ := strings.Cut(f.Path, "/")
		changes[i] = known[first]
		if len(parts) == 1 { // which may list what it likes
			changes[i] = parts[0].Changed
		}
	}
	return changes
}

func (v Verify) do(ctx context.Context, d *Dir) (Answer, error) {
	m, err := checkpoint.Inspect(d, v.Dir, v.ManifestSHA256)
	if err != nil || v.Quick {
		return Answer{Bytes: m.Bytes()}, err
	}
	// Before the files are read: what is changed meanwhile breaks it.
	seal := d.seal(v.Dir, m, nil)
	if seal != "" && seal == v.Seal {
		return Answer{Bytes: m.Bytes(), Seal: seal}, nil
	}
	m, err = checkpoint.Verify(ctx, d, v.Dir, v.ManifestSHA256)
	return Answer{Bytes: m.Bytes(), Whole: true, Seal: seal}, err
}

// retain deletes what is surplus, the rest of it too where one resists.
func (d *Dir) retain(ctx context.Context, r checkpoint.Retain) (deleted []string, err error) {
	surplus, err := checkpoint.Surplus(d, r)
	for _, dir := range surplus {
		if ctx.Err() != nil {
			return deleted, errors.Join(err, ctx.Err())
		}
		if failed := d.Delete(dir); failed != nil {
			err = errors.Join(err, fmt.Errorf("delete %s: %w", dir, failed))
			continue
		}
		deleted = append(deleted, dir)
	}
	return deleted, err
}

func fault(err error) (Answer, error) {
	f := &Fault{Text: err.Error(), Absent: errors.Is(err, checkpoint.ErrAbsent), Foreign: errors.Is(err, owned.ErrForeign), Full: full(err)}
	errors.As(err, &f.Corrupt)
	errors.As(err, &f.Errno)
	return Answer{Fault: f}, err
}

// Serve is the child process's side: it reads one task from in, does it, and
// writes the answer to out. Its own error says that the two could not talk; a
// task that went wrong is an answer.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var t Task
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return fmt.Errorf("read checkpoint task: %w", err)
	}
	a, _ := t.Do(ctx) // the answer has the error
	if err := json.NewEncoder(out).Encode(a); err != nil {
		return fmt.Errorf("write answer to checkpoint task: %w", err)
	}
	return nil
}

// ReadAnswer is the parent's side: it reads what Serve wrote. The error is the task's, if it had one.
func ReadAnswer(in io.Reader) (Answer, error) {
	var a Answer
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return Answer{}, fmt.Errorf("read answer to checkpoint task: %w", err)
	}
	if a.Fault != nil {
		return a, a.Fault
	}
	return a, nil
}
