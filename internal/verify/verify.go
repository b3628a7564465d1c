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
func Run(ctx context.Context, o Options) (Result, error) {
	s := session{}
	defer s.close()
	return s.run(ctx, &o)
}

// session is what the worlds of both trainings have in common.
type session struct {
	python   string    // the PYTHONPATH
	launcher *launcher // forks workers; nil: they are processes of their own
}

func (s *session) close() { s.launcher.close() }

func (s *session) run(ctx context.Context, o *Options) (r Result, err error) {
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
	if s.python == "" {
		if s.python, err = python(filepath.Join(dir, "python")); err != nil {
			return Result{}, err
		}
	}
	begin := time.Now()
	never, err := s.train(ctx, o, filepath.Join(dir, "never"), o.Sizes[:1])
	if err != nil {
		return Result{}, fmt.Errorf("train without a rescale: %w", err)
	}
	between := time.Now()
	if !s.launcher.alive() && !o.ColdStart {
		s.prepare(ctx, o, filepath.Join(dir, "never", "0"))
	}
	prepared := time.Now()
	rescaled, err := s.train(ctx, o, filepath.Join(dir, "rescaled"), o.Sizes)
	if err != nil {
		return Result{}, fmt.Errorf("train with rescales: %w", err)
	}
	r = Compare(never, rescaled, o.Tolerance)
	r.Sizes, r.StepsEach = o.Sizes, o.StepsEach
	r.NeverS, r.PrepareS, r.RescaledS = between.Sub(begin).Seconds(), prepared.Sub(between).Seconds(), time.Since(between).Seconds()
	return r, nil
}

// prepare has what the world in a folder imported imported for the others, if it can be.
func (s *session) prepare(ctx context.Context, o *Options, dir string) {
	begin := time.Now()
	s.launcher.close()
	var err error
	if s.launcher, err = prepare(ctx, o, &world{size: 1, dir: dir}, s.python); err != nil {
		o.tell("all worlds are started as the first was: " + err.Error())
		return
	}
	o.tell(fmt.Sprintf("%.1f s to import once what the other worlds import", time.Since(begin).Seconds()))
}

// train runs the worlds of one training, which share its steps evenly.
func (s *session) train(ctx context.Context, o *Options, dir string, sizes []int) (t Training, err error) {
	var from *saved
	for n, size := range sizes {
		w := world{
			size: size, begin: n * o.Steps() / len(sizes), end: (n + 1) * o.Steps() / len(sizes), dir: filepath.Join(dir, fmt.Sprint(n)),
			from: from, rescaled: len(sizes) > 1, python: s.python, launcher: s.launcher,
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
