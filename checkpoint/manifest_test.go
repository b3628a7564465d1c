package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/record"
)

func file(path string) record.File {
	sum := sha256.Sum256([]byte(path))
	return record.File{Path: path, Bytes: int64(len(path)), SHA256: hex.EncodeToString(sum[:])}
}

// part is what a node saved: a file for each of its ranks.
func part(ranks ...int) record.Saved {
	s := record.Saved{Dir: "/c/job/g00000002/step-000000000009", Ranks: ranks, Samples: 2304}
	for _, r := range ranks {
		s.Files = append(s.Files, file(layout.Rank(r)+"/model.pt"))
	}
	return s
}

func title(world int) Title {
	return Title{Job: "job-abcdef", Generation: 2, Step: 9, WorldSize: world}
}

func TestMergeIsTheSameInAnyOrder(t *testing.T) {
	parts := []record.Saved{part(2, 3), part(0, 1)}
	a, err := Merge(title(4), parts)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(parts)
	b, err := Merge(title(4), parts)
	if err != nil {
		t.Fatal(err)
	}
	_, sumA, errA := a.Encode()
	text, sumB, errB := b.Encode()
	if errA != nil || errB != nil || sumA != sumB {
		t.Errorf("%s, %v and %s, %v", sumA, errA, sumB, errB)
	}
	back, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, sum, _ := back.Encode(); sum != sumA || back.Samples != 2304 || !slices.Equal(back.Ranks, []int{0, 1, 2, 3}) || back.Bytes() != a.Bytes() {
		t.Errorf("read back: %+v", back)
	}
}

func TestMergeRefuses(t *testing.T) {
	elsewhere, otherData, foreign, twice := part(1), part(1), part(1), part(1)
	elsewhere.Dir = "/d"
	otherData.Samples = 2048
	foreign.Files = []record.File{file("rank-00000/stolen.pt")}
	twice.Files = append(twice.Files, twice.Files[0])
	outside, unhashed, empty := part(1), part(1), part(0)
	outside.Files = []record.File{file("rank-00001/../../x")}
	unhashed.Files[0].SHA256 = "abc"
	empty.Files = nil
	for _, c := range []struct {
		name       string
		world      int
		parts      []record.Saved
		want       string
		incomplete bool
	}{
		{"a rank is missing", 4, []record.Saved{part(0), part(2)}, "no files of ranks 1, 3", true},
		{"nothing at all", 1, nil, "nothing was saved", true},
		{"two directories", 2, []record.Saved{part(0), elsewhere}, "rank 1 in /d: use one directory", false},
		{"two positions", 2, []record.Saved{part(0), otherData}, "rank 1 at 2048", false},
		{"a rank twice", 2, []record.Saved{part(0, 1), part(1)}, "rank 1 is listed twice", false},
		{"a rank too many", 1, []record.Saved{part(0), part(1)}, "not below the world size 1", false},
		{"another's directory", 2, []record.Saved{part(0), foreign}, `"rank-00000/stolen.pt" is not in the directory of rank 1`, false},
		{"a path twice", 2, []record.Saved{part(0), twice}, "use each path once", false},
		{"a path outside", 2, []record.Saved{part(0), outside}, "use a clean path", false},
		{"no digest", 2, []record.Saved{part(0), unhashed}, "64 hexadecimal digits", false},
		{"no files", 1, []record.Saved{empty}, "holds no files", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Merge(title(c.world), c.parts)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrIncomplete) != c.incomplete {
				t.Errorf("got %v, want …%s…, incomplete %t", err, c.want, c.incomplete)
			}
		})
	}
}

func TestMergeTakesAPlainScriptsFilesAsTheyAre(t *testing.T) {
	s := record.Saved{Dir: "/c", Ranks: []int{0, 1}, Files: []record.File{file("weights.bin"), file("COMPLETE")}}
	m, err := Merge(title(2), []record.Saved{s})
	if err != nil || m.Files[0].Path != "COMPLETE" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := Merge(title(1), []record.Saved{part(0)})
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for want, bad := range map[string]string{
		"format 2":           strings.Replace(string(text), `"format": 1`, `"format": 2`, 1),
		"use a clean path":   strings.Replace(string(text), "rank-00000/model.pt", "/etc/passwd", 1),
		"something follows":  string(text) + "{}",
		"unexpected EOF":     string(text[:len(text)/2]),
		"EOF":                "",
		"use 0 or more":      strings.Replace(string(text), `"bytes": 19`, `"bytes": -1`, 1),
		"cannot unmarshal":   strings.Replace(string(text), `"step": 9`, `"step": "9"`, 1),
		"64 hexadecimal dig": strings.Replace(string(text), `"sha256": "`, `"sha256": "xx`, 1),
	} {
		if _, err := Decode([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}

func TestRanksArePutInWordsThatStayShort(t *testing.T) {
	for want, list := range map[string][]int{
		"rank 3":     {3},
		"ranks 0, 2": {0, 2},
		"ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more": {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
	} {
		if got := ranks(list); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
