package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// Format is the version of the manifest. Another one is refused.
const Format = 1

// MaxManifestBytes bounds what is read as a manifest: about a million files.
const MaxManifestBytes = 256 << 20

// ErrIncomplete is wrapped by Merge's error while parts are missing: more may yet come.
var ErrIncomplete = errors.New("checkpoint is incomplete")

// Title says which checkpoint it is.
type Title struct {
	Job        cluster.JobID      `json:"job"`
	Generation cluster.Generation `json:"generation"` // which saved it
	Step       int64              `json:"step"`       // optimiser steps finished
	WorldSize  int                `json:"world_size"` // of the generation that saved it
}

// Manifest lists a whole checkpoint. It lies beside the files, so that
// checkpoints can be found and trusted without etcd.
type Manifest struct {
	Format int `json:"format"`
	Title
	Samples int64         `json:"samples"` // consumed since the start of training; -1 = unknown
	Ranks   []int         `json:"ranks"`   // whose files these are, ascending
	Files   []record.File `json:"files"`   // sorted by path
}

// Bytes returns the size of all files together.
func (m Manifest) Bytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// Encode returns the manifest's one and only form as a file, and its SHA-256 in hexadecimal.
func (m Manifest) Encode() (text []byte, digest string, err error) {
	text, err = json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, "", fmt.Errorf("encode manifest: %w", err)
	}
	text = append(text, '\n')
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:]), nil
}

// Decode reads a manifest and checks it: the format, each path and each digest's form.
func Decode(text []byte) (Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, errors.New("decode manifest: something follows it")
	}
	if m.Format != Format {
		return Manifest{}, fmt.Errorf("decode manifest: format %d: this version of Bellows reads format %d", m.Format, Format)
	}
	if err := checkFiles(m.Files); err != nil {
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	return m, nil
}

// checkFiles demands clean paths, each once and in order, and digests that are digests.
func checkFiles(files []record.File) error {
	for i, f := range files {
		if err := CheckPath(f.Path); err != nil {
			return err
		}
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("file %q: sha256 %q: use 64 hexadecimal digits", f.Path, f.SHA256)
		}
		if f.Bytes < 0 {
			return fmt.Errorf("file %q: %d bytes: use 0 or more", f.Path, f.Bytes)
		}
		if i > 0 && files[i-1].Path >= f.Path {
			return fmt.Errorf("file %q comes after %q: use each path once, in order", f.Path, files[i-1].Path)
		}
	}
	return nil
}

// Merge makes the manifest of a checkpoint from what the nodes saved of it.
// Every rank of the world must be there, all must agree on the directory and on
// the position in the data, and there must be files. Where several nodes saved,
// each file must lie in the directory of a rank of the node that listed it; one
// node alone may list what it likes, as rank 0's does for a plain script.
func Merge(t Title, parts []record.Saved) (Manifest, error) {
	m, err := gather(t, parts)
	if err != nil {
		return Manifest{}, err
	}
	var missing []int
	for rank := range t.WorldSize {
		if _, found := slices.BinarySearch(m.Ranks, rank); !found {
			missing = append(missing, rank)
		}
	}
	if len(missing) > 0 {
		return Manifest{}, fmt.Errorf("merge step %d: no files of %s: %w", t.Step, ranks(missing), ErrIncomplete)
	}
	if len(m.Files) == 0 {
		return Manifest{}, fmt.Errorf("merge step %d: %s holds no files: nothing could be resumed from it", t.Step, parts[0].Dir)
	}
	if len(parts) == 1 {
		return m, nil
	}
	for _, p := range parts {
		dirs := map[string]bool{}
		for _, r := range p.Ranks {
			dirs[layout.Rank(r)] = true
		}
		for _, f := range p.Files {
			if first, _, below := strings.Cut(f.Path, "/"); !below || !dirs[first] {
				return Manifest{}, fmt.Errorf("merge step %d: file %q is not in the directory of %s, which listed it",
					t.Step, f.Path, ranks(p.Ranks))
			}
		}
	}
	return m, nil
}

// gather puts the parts together, as far as they agree with one another.
func gather(t Title, parts []record.Saved) (Manifest, error) {
	if len(parts) == 0 {
		return Manifest{}, fmt.Errorf("merge step %d: nothing was saved: %w", t.Step, ErrIncomplete)
	}
	if t.Step < 0 || t.WorldSize < 1 {
		return Manifest{}, fmt.Errorf("merge step %d, world size %d: use 0 or more, and 1 or more", t.Step, t.WorldSize)
	}
	m := Manifest{Format: Format, Title: t, Samples: parts[0].Samples}
	for _, p := range parts {
		if p.Dir != parts[0].Dir {
			return Manifest{}, fmt.Errorf("merge step %d: %s saved in %s but %s in %s: use one directory for all",
				t.Step, ranks(parts[0].Ranks), parts[0].Dir, ranks(p.Ranks), p.Dir)
		}
		if p.Samples != m.Samples {
			return Manifest{}, fmt.Errorf("merge step %d: %s are at sample %d but %s at %d: save all ranks at one step",
				t.Step, ranks(parts[0].Ranks), m.Samples, ranks(p.Ranks), p.Samples)
		}
		m.Ranks = append(m.Ranks, p.Ranks...)
		m.Files = append(m.Files, p.Files...)
	}
	slices.Sort(m.Ranks)
	for i, r := range m.Ranks {
		if r < 0 || r >= t.WorldSize || i > 0 && m.Ranks[i-1] == r {
			return Manifest{}, fmt.Errorf("merge step %d: rank %d is listed twice or is not below the world size %d", t.Step, r, t.WorldSize)
		}
	}
	slices.SortFunc(m.Files, func(a, b record.File) int { return strings.Compare(a.Path, b.Path) })
	if err := checkFiles(m.Files); err != nil {
		return Manifest{}, fmt.Errorf("merge step %d: %w", t.Step, err)
	}
	return m, nil
}

// Write puts the manifest into its checkpoint's directory, durable, and returns
// its digest. Only then may the checkpoint be offered. Writing it again is harmless.
func Write(b Blobs, dir string, m Manifest) (digest string, err error) {
	text, digest, err := m.Encode()
	if err == nil {
		err = fits(len(text), len(m.Files))
	}
	if err != nil {
		return "", fmt.Errorf("write manifest of %s: %w", dir, err)
	}
	if err := b.Put(path.Join(dir, layout.Manifest), text); err != nil {
		return "", fmt.Errorf("write manifest of %s: %w", dir, err)
	}
	return digest, nil
}

// ranks names ranks for people: "rank 3", "ranks 0, 2 and 5 more".
func ranks(list []int) string {
	const most = 8 // a line, not a page
	var b strings.Builder
	b.WriteString("rank")
	if len(list) != 1 {
		b.WriteString("s")
	}
	for i, r := range list {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(list)-most)
			break
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d", r)
	}
	return b.String()
}
