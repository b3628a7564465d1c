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
	s := session{Options: &o, python: path}
	defer func() { s.launcher.close() }()
	never, err := s.train(ctx, filepath.Join(dir, "never"), o.Sizes[:1])
	if err != nil {
		return Result{}, fmt.Errorf("train without a rescale: %w", err)
	}
	between := time.Now()
	s.prepare(ctx)
	rescaled, err := s.train(ctx, filepath.Join(dir, "rescaled"), o.Sizes)
	if err != nil {
		return Result{}, fmt.Errorf("train with rescales: %w", err)
	}
	r = Compare(never, rescaled, o.Tolerance)
	r.Sizes, r.StepsEach = o.Sizes, o.StepsEach
	r.PrepareS = s.took.Seconds()
	r.NeverS, r.RescaledS = between.Sub(begin).Seconds(), time.Since(between).Seconds()
	return r, nil
}

// session is what the worlds of both trainings have in common.
type session struct {
	*Options

	python   string    // the PYTHONPATH
	first    *world    // whose imports are known
	launcher *launcher // forks the workers of the others; nil: they are processes of their own
	took     time.Duration
}

// prepare has what the first world imported imported for the others, if it can be.
func (s *session) prepare(ctx context.Context) {
	if s.ColdStart {
		return
	}
	begin := time.Now()
	var err error
	if s.launcher, err = prepare(ctx, s.Options, s.first, s.python); err != nil {
		s.tell("all worlds are started as the first was: " + err.Error())
		return
	}
	s.took = time.Since(begin)
	s.tell(fmt.Sprintf("%.1f s to import once what the other worlds import", s.took.Seconds()))
}

// train runs the worlds of one training, which share its steps evenly.
func (s *session) train(ctx context.Context, dir string, sizes []int) (t Training, err error) {
	var from *saved
	for n, size := range sizes {
		w := world{
			size: size, begin: n * s.Steps() / len(sizes), end: (n + 1) * s.Steps() / len(sizes), dir: filepath.Join(dir, fmt.Sprint(n)),
			from: from, rescaled: len(sizes) > 1, python: s.python, launcher: s.launcher,
		}
		w.began = time.Now()
		if from, err = w.run(ctx, s.Options); err != nil {
			return Training{}, err
		}
		w.ended = time.Now()
		if err = w.read(&t); err != nil {
			return Training{}, err
		}
		if s.first == nil {
			s.first = &w
		}
		took := t.Worlds[n]
		s.tell(fmt.Sprintf("steps %d to %d with %s: %.1f s, of which %.1f s until the first step was over, %.1f s for the others and %.1f s to save and end",
			w.begin, w.end-1, units.Count(size, "worker"), w.ended.Sub(w.began).Seconds(), took.StartS, took.StepsS, took.EndS))
	}
	return t, nil
}
