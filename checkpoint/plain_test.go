package checkpoint_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bellows-ml/bellows/checkpoint"
	"github.com/bellows-ml/bellows/checkpoint/blobtest"
)

func disk(t *testing.T, names ...string) *blobtest.Disk {
	t.Helper()
	d := blobtest.NewDisk()
	for _, n := range names {
		if err := d.WriteFile(n, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestFindPlain(t *testing.T) {
	search := checkpoint.Search{Dir: "g1", Since: -1}
	later := checkpoint.Search{Dir: "g1", Since: 20}
	ended := checkpoint.Search{Dir: "g1", Since: 20, Ended: true}
	for _, c := range []struct {
		name  string
		files []string
		s     checkpoint.Search
		want  checkpoint.Plain
	}{
		{"the newest complete one", []string{"g1/step-5/COMPLETE", "g1/step-000012/COMPLETE", "g1/step-100/model"}, search, checkpoint.Plain{Dir: "g1/step-000012", Step: 12}},
		{"numbers, not names", []string{"g1/step-9/COMPLETE", "g1/step-10/COMPLETE"}, search, checkpoint.Plain{Dir: "g1/step-10", Step: 10}},
		{"nothing new", []string{"g1/step-20/COMPLETE"}, later, checkpoint.Plain{}},
		{"step 0 is a step", []string{"g1/step-0/COMPLETE"}, search, checkpoint.Plain{Dir: "g1/step-0"}},
		{"COMPLETE is a file", []string{"g1/step-1/COMPLETE/x"}, search, checkpoint.Plain{}},
		{"a step is a directory with a number", []string{"g1/step-3", "g1/step-x/COMPLETE", "g1/step--4/COMPLETE", "g1/step-99999999999999999999/COMPLETE"}, search, checkpoint.Plain{}},
		{"the SDK's directories are none", []string{"g1/step-000000000004/rank-00000/x"}, search, checkpoint.Plain{}},
		{"no such directory", nil, search, checkpoint.Plain{}},
		{"files without steps, still running", []string{"g1/model"}, search, checkpoint.Plain{}},
		{"files without steps, ended", []string{"g1/model"}, ended, checkpoint.Plain{Dir: "g1", Step: 21, Whole: true}},
		{"nothing but our own and hidden files", []string{"g1/MANIFEST.json", "g1/.nonce"}, ended, checkpoint.Plain{}},
		{"an unfinished step is not the whole", []string{"g1/log", "g1/step-30/model"}, ended, checkpoint.Plain{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, found, err := checkpoint.FindPlain(disk(t, c.files...), c.s)
			c.want.Samples = -1 // COMPLETE holds an x
			if err != nil || found != (c.want.Dir != "") || found && got != c.want {
				t.Errorf("%+v, %t, %v, want %+v", got, found, err, c.want)
			}
		})
	}
}

func TestPlainScriptsMaySayWhereTheyAre(t *testing.T) {
	for text, want := range map[string]int64{
		"":                             -1,
		"samples=307200":               307200,
		"loss=0.5\nsamples=12\n":       12,
		" samples=0 \n":                0,
		"samples=-4\nsamples=9\n":      9,
		"samples=many":                 -1,
		"samples=99999999999999999999": -1,
	} {
		d := disk(t, "g1/step-5/model")
		if err := d.WriteFile("g1/step-5/COMPLETE", []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, _, err := checkpoint.FindPlain(d, checkpoint.Search{Dir: "g1", Since: -1})
		if err != nil || got.Samples != want {
			t.Errorf("%q says %d, %v, want %d", text, got.Samples, err, want)
		}
	}
}

func TestDigestLeavesOutWhatIsNotTheScripts(t *testing.T) {
	d := disk(t, "g1/model", "g1/sub/.hidden", "g1/MANIFEST.json", "g1/.model.tmp")
	files, err := checkpoint.Digest(t.Context(), d, "g1", nil)
	if err != nil || len(files) != 2 || files[0].Path != "model" || files[1].Path != "sub/.hidden" {
		t.Errorf("%+v, %v", files, err)
	}
	const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	if len(files) > 0 && files[0].SHA256 != sumOfX {
		t.Errorf("sha256 %s", files[0].SHA256)
	}
}

func TestDigestWantsEachRanksDirectory(t *testing.T) {
	d := disk(t, "g1/rank-00000/x")
	if _, err := checkpoint.Digest(t.Context(), d, "g1", []int{0, 1}); err == nil {
		t.Error("rank 1 has saved nothing, and there is no error")
	}
}

func TestDigestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := checkpoint.Digest(ctx, disk(t, "g1/rank-00000/x"), "g1", []int{0}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestCheckPath(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "/a", "a/../b", "../a", "a//b", "a/", "./a", "a\nb", "a\x00"} {
		if checkpoint.CheckPath(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"a", "a/b", "..a/b..", "ä/☃", "a b"} {
		if err := checkpoint.CheckPath(good); err != nil {
			t.Error(err)
		}
	}
}
