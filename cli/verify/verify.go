package verify

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
)

// Run trains the script twice and compares. It returns an error where the script could not be
// trained; that the trainings differ is a result.
func Run(ctx context.Context, o Options) (r Result, err error) {
	dir, err := folder(o.Keep)
	if err != nil {
		return Result{}, err
	}
	if o.Keep == "" {
		defer func() { err = cmp.Or(err, os.RemoveAll(dir)) }()
	}
	// Only this user can write there, also where another one owns what is kept.
	modules, err := os.MkdirTemp("", "bellows-verify-python-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(modules)) }()
	path, err := python(modules)
	if err != nil {
		return Result{}, err
	}
	return trained(ctx, &o, dir, path)
}

// folder is where the worlds are, absolute: a temporary one, or one that is kept and has nothing in it.
func folder(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "bellows-verify-")
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(keep)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fault.Usage("--keep %s: it has %s in it: name a new or an empty directory", keep, entries[0].Name())
	}
	return filepath.Abs(keep)
}

// trained trains both and compares.
func trained(ctx context.Context, o *Options, dir, path string) (r Result, err error) {
	begin := time.Now()
	never, err := train(ctx, o, place{filepath.Join(dir, "never"), path}, o.Sizes[:1])
	if err != nil {
		return Result{}, fmt.Errorf("train without a rescale: %w", err)
	}
	between := time.Now()
	rescaled, err := train(ctx, o, place{filepath.Join(dir, "rescaled"), path}, o.Sizes)
	if err != nil {
		return Result{}, fmt.Errorf("train with rescales: %w", err)
	}
	r = Compare(never, rescaled, o.Tolerance)
	r.Sizes, r.StepsEach = o.Sizes, o.StepsEach
	r.NeverS, r.RescaledS = between.Sub(begin).Seconds(), time.Since(between).Seconds()
	return r, nil
}

// place is where the worlds of a training are, and where their workers find the module.
type place struct{ dir, python string }

// train runs the worlds of one training, which share its steps evenly.
func train(ctx context.Context, o *Options, in place, sizes []int) (t Training, err error) {
	var from *saved
	for n, size := range sizes {
		w := world{
			size: size, begin: n * o.Steps() / len(sizes), end: (n + 1) * o.Steps() / len(sizes), dir: filepath.Join(in.dir, fmt.Sprint(n)),
			from: from, rescaled: len(sizes) > 1, python: in.python,
		}
		w.began = time.Now()
		if from, err = w.run(ctx, o); err != nil {
			return Training{}, err
		}
		w.ended = time.Now()
		if err = w.read(&t); err != nil {
			return Training{}, err
		}
		took := t.Worlds[n]
		o.tell(fmt.Sprintf("steps %d to %d with %s: %.1f s, of which %.1f s until the first step was over, %.1f s for the others and %.1f s to save and end",
			w.begin, w.end-1, units.Count(size, "worker"), w.ended.Sub(w.began).Seconds(), took.StartS, took.StepsS, took.EndS))
	}
	return t, nil
}
