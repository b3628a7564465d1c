package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

// A node's list of files may be longer than what etcd takes as a record. Then it
// lies beside the files, as a part of the manifest to come, and the record has
// its digest:
//
//	node: files digested ──► part written, durable ──► record
//	rank 0's: all records there ──► parts read, compared ──► MANIFEST.json, durable ──► parts deleted ──► offer
//
// A merge that is repeated after the parts were deleted finds that they are in
// the manifest, which therefore is the one that it would have written.

// InlineBytes is how long a list may be that goes into a record: far below what
// etcd takes, because leaders and agents keep all records in memory.
const InlineBytes = 64 << 10

// fileBytes is what a file takes in a record besides its path: names of fields, a digest, a size.
const fileBytes = 120

// PartName is where a node leaves its list, relative to its checkpoint's
// directory; lists of other nodes have other first ranks. Scripts' files do not
// begin with a dot, as far as they are saved.
func PartName(ranks []int) string { return layout.Part(slices.Min(ranks)) }

// Inline reports whether a list is short enough for a record.
func Inline(files []record.File) bool {
	n := 0
	for _, f := range files {
		n += fileBytes + len(f.Path)
	}
	return n <= InlineBytes
}

type partFile struct {
	Format int           `json:"format"`
	Ranks  []int         `json:"ranks"`
	Files  []record.File `json:"files"`
}

func encodePart(ranks []int, files []record.File) (text []byte, digest string, err error) {
	text, err = json.Marshal(partFile{Format, ranks, files})
	if err != nil {
		return nil, "", fmt.Errorf("encode part of a manifest: %w", err)
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:]), nil
}

// WritePart leaves a node's list of files in its checkpoint's directory, durable.
// Only then may it be recorded. Writing it again is harmless.
func WritePart(b Blobs, dir string, ranks []int, files []record.File) (*record.Part, error) {
	if len(ranks) == 0 {
		return nil, errors.New("write part of a manifest: it is of no rank")
	}
	text, digest, err := encodePart(ranks, files)
	if err != nil {
		return nil, err
	}
	if err := fits(len(text), len(files)); err != nil {
		return nil, err
	}
	name := path.Join(dir, PartName(ranks))
	if err := b.Put(name, text); err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return &record.Part{Ranks: ranks, SHA256: digest, Files: len(files), Bytes: Manifest{Files: files}.Bytes()}, nil
}

// fits refuses what a reader would refuse.
func fits(size, files int) error {
	if size > MaxManifestBytes {
		return fmt.Errorf("the list of %d files has %d bytes, at most %d are read: save fewer and larger files", files, size, MaxManifestBytes)
	}
	return nil
}

// Assemble makes the manifest of a checkpoint from what the nodes have recorded
// of it, writes it, and deletes the parts that are in it now. Doing it again
// comes to the same. The error wraps ErrAbsent where a part is not visible here.
func Assemble(b Blobs, dir string, t Title, parts []record.Saved) (m Manifest, digest string, err error) {
	full, err := readParts(b, dir, parts)
	switch {
	case err == nil:
		if m, err = Merge(t, full); err == nil {
			digest, err = Write(b, dir, m)
		}
	case errors.Is(err, ErrAbsent):
		var found bool
		if m, digest, found = assembled(b, dir, t, parts); found {
			err = nil
		}
	}
	if err != nil {
		return Manifest{}, "", err
	}
	for _, p := range parts {
		if p.Part == nil {
			continue
		}
		// One that resists goes with its checkpoint.
		if err := b.Delete(path.Join(dir, PartName(p.Part.Ranks))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, digest, nil // the checkpoint is whole and durable all the same
		}
	}
	return m, digest, nil
}

// readParts returns what the nodes have saved with all files listed.
func readParts(b Blobs, dir string, parts []record.Saved) ([]record.Saved, error) {
	full := slices.Clone(parts)
	for i, p := range parts {
		if p.Part == nil {
			continue
		}
		if len(p.Part.Ranks) == 0 {
			return nil, errors.New("read part of a manifest: it is of no rank")
		}
		name := path.Join(dir, PartName(p.Part.Ranks))
		text, err := readBounded(b, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:]); got != p.Part.SHA256 {
			return nil, differs(name, "sha256", p.Part.SHA256, got)
		}
		var list partFile
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("read %s: it is no list of the files of %s: %w", name, ranks(p.Part.Ranks), err)
		}
		if list.Format != Format || !slices.Equal(list.Ranks, p.Part.Ranks) {
			return nil, fmt.Errorf("read %s: it lists the files of %s in format %d, want %s in format %d", name, ranks(list.Ranks), list.Format, ranks(p.Part.Ranks), Format)
		}
		full[i].Ranks, full[i].Files, full[i].Part = list.Ranks, list.Files, nil
	}
	return full, nil
}

// assembled reports whether an earlier merge has written the manifest of just these parts.
func assembled(b Blobs, dir string, t Title, parts []record.Saved) (m Manifest, digest string, ok bool) {
	text, err := readBounded(b, path.Join(dir, layout.Manifest))
	if err != nil {
		return Manifest{}, "", false
	}
	if m, err = Decode(text); err != nil || m.Title != t {
		return Manifest{}, "", false
	}
	for _, p := range parts {
		own := filesOf(m.Files, p.Of(), len(parts) == 1)
		if p.Part == nil {
			if ok = slices.Equal(own, p.Files) && p.Samples == m.Samples; !ok {
				return Manifest{}, "", false
			}
			continue
		}
		_, sum, errPart := encodePart(p.Part.Ranks, own)
		if errPart != nil || sum != p.Part.SHA256 || p.Samples != m.Samples {
			return Manifest{}, "", false
		}
	}
	again, digest, err := m.Encode()
	return m, digest, err == nil && bytes.Equal(again, text)
}

// filesOf returns the files in the directories of these ranks, or all.
func filesOf(files []record.File, ranks []int, all bool) []record.File {
	if all {
		return files
	}
	dirs := map[string]bool{}
	for _, r := range ranks {
		dirs[layout.Rank(r)] = true
	}
	var own []record.File
	for _, f := range files {
		if first, _, _ := strings.Cut(f.Path, "/"); dirs[first] {
			own = append(own, f)
		}
	}
	return own
}

func readBounded(b Blobs, name string) ([]byte, error) {
	f, err := b.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent(name)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxManifestBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, fits(len(text), 0)
}
