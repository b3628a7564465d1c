package verify

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bellows-ml/bellows/internal/units"
)

// Run trains the script twice and compares. It returns an error where the script could not be
// trained; that the trainings differ is a result.
func Run(ctx context.Context, o Options) (r Result, err error) {
	dir := o.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bellows-verify-"); err != nil {
			return Result{}, err
		}
		defer func() { err = cmp.Or(err, os.RemoveAll(dir)) }()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return Result{}, err
	}
	path, err := python(filepath.Join(dir, "python"))
	if err != nil {
		return Result{}, err
	}
	begin := time.Now()
	never, err := train(ctx, &o, filepath.Join(dir, "never"), path, o.Sizes[:1])
	if err != nil {
		return Result{}, fmt.Errorf("train without a rescale: %w", err)
	}
	between := time.Now()
	rescaled, err := train(ctx, &o, filepath.Join(dir, "rescaled"), path, o.Sizes)
	if err != nil {
		return Result{}, fmt.Errorf("train with rescales: %w", err)
	}
	r = Compare(never, rescaled, o.Tolerance)
	r.Sizes, r.StepsEach = o.Sizes, o.StepsEach
	r.NeverS, r.RescaledS = between.Sub(begin).Seconds(), time.Since(between).Seconds()
	return r, nil
}

// train runs the worlds of one training, which share its steps evenly.
func train(ctx context.Context, o *Options, dir, python string, sizes []int) (t Training, err error) {
	var from *saved
	for n, size := range sizes {
		w := world{size: size, begin: n * o.Steps() / len(sizes), end: (n + 1) * o.Steps() / len(sizes), dir: filepath.Join(dir, fmt.Sprint(n)), from: from, rescaled: len(sizes) > 1}
		w.began = time.Now()
		if from, err = w.run(ctx, o, python); err != nil {
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
