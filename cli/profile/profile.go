package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
)

const (
	// lookEvery is how often the job is looked at.
	lookEvery = 500 * time.Millisecond
	// endWithin is how long a job that was told to end at once, and its last record, are waited for.
	endWithin = time.Minute
)

// Options say what to measure.
type Options struct {
	Spec    cluster.Spec
	Sizes   []int         // ascending
	Each    time.Duration // how long each size trains, from its first step on
	StartIn time.Duration // by when a size has to have finished its first step
	Told    io.Writer     // what happens, for people
}

// Result is what was measured.
type Result struct {
	Job    string          `json:"job"`
	Kind   string          `json:"kind"`
	Speeds []api.SizeSpeed `json:"speeds"`
	Starts []api.StartCost `json:"start_costs"`
}

// ErrNoSteps says that a script does not report its steps.
var ErrNoSteps = errors.New("it reports no steps, and without them no speed can be measured: " +
	"add 'import bellows' and bellows.report(step) after each step ('bellows run --help', docs/recipes.md)")

// profile is one job that is measured.
type profile struct {
	Options
	client *api.Client
	id     string
}

// Run submits the job, measures it at each size and ends it. When the context ends it ends the job
// and returns the context's error with what was measured until then.
func Run(ctx context.Context, client *api.Client, o Options) (Result, error) {
	o.Spec.MinWorkers, o.Spec.MaxWorkers = o.Sizes[0], o.Sizes[0]
	// It ends by itself if this process dies before it could end it.
	o.Spec.TimeLimit = cluster.Duration(time.Duration(len(o.Sizes)) * (o.Each + o.StartIn))
	reply, err := ask.Submit(ctx, client, o.Spec)
	if err != nil {
		return Result{}, err
	}
	p := profile{Options: o, client: client, id: reply.ID}
	measured, err := p.measure(ctx)
	result, ended := p.end(measured)
	if len(result.Speeds) < len(measured) && err == nil && ended == nil {
		ended = fmt.Errorf("job %s: of some sizes no speed was recorded: measure for longer with --seconds", p.id)
	}
	return result, errors.Join(err, ended)
}

// measure lets the job train at each size, and returns those at which it did.
func (p *profile) measure(ctx context.Context) (measured []int, err error) {
	for i, k := range p.Sizes {
		if i > 0 {
			if err := p.resize(ctx, k); err != nil {
				return measured, err
			}
		}
		if err := p.firstStep(ctx, k); err != nil {
			return measured, err
		}
		p.tell("%s: trains, measured for %s", units.Count(k, "worker"), p.Each)
		measured = append(measured, k)
		if err := p.train(ctx); err != nil {
			return measured, err
		}
	}
	return measured, nil
}

// resize gives the job another size, if so many devices are idle now.
func (p *profile) resize(ctx context.Context, workers int) error {
	nodes, err := p.client.Nodes(ctx)
	if err != nil {
		return err
	}
	job, err := p.client.Job(ctx, p.id)
	if err != nil {
		return err
	}
	if idle := Idle(nodes, p.Spec.Where) + job.Workers; idle < workers {
		return fmt.Errorf("%s: other jobs have taken devices, and %d are left", units.Count(workers, "worker"), idle)
	}
	req := api.ScaleRequest{RequestID: api.NewRequestID(), MinWorkers: workers, MaxWorkers: workers}
	return ask.Insist(func() error {
		_, err := p.client.Scale(ctx, p.id, req)
		return err
	})
}

// firstStep waits until the job has finished a step at its size.
func (p *profile) firstStep(ctx context.Context, workers int) error {
	late := time.Now().Add(p.StartIn)
	for {
		job, err := p.look(ctx)
		if err != nil {
			return err
		}
		runs := job.Phase == cluster.Running && job.Workers == workers
		switch {
		case runs && job.Progress.Generation == job.Generation && job.Progress.StepsPerSecond > 0:
			return nil
		case time.Now().Before(late):
		case runs && job.Progress.Generation == 0:
			return fmt.Errorf("job %s: %w", p.id, ErrNoSteps)
		case runs:
			return fmt.Errorf("job %s: it has not finished a step with %s within %s: allow it more with --start-timeout", p.id, units.Count(workers, "worker"), p.StartIn)
		default:
			return fmt.Errorf("job %s: it does not run with %s after %s: it is %s: %s", p.id, units.Count(workers, "worker"), p.StartIn, job.Phase, output.OneLine(job.Reason))
		}
	}
}

// train lets the job train as it is for as long as each size is measured.
func (p *profile) train(ctx context.Context) error {
	for end := time.Now().Add(p.Each); time.Now().Before(end); {
		if _, err := p.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// look returns the job after a moment; one that has ended is an error.
func (p *profile) look(ctx context.Context) (api.JobStatus, error) {
	select {
	case <-ctx.Done():
		return api.JobStatus{}, ctx.Err()
	case <-time.After(lookEvery):
	}
	var job api.JobStatus
	err := ask.Again(ctx, func(heard func()) (err error) {
		job, err = p.client.Job(ctx, p.id)
		if err == nil {
			heard()
		}
		return err
	})
	if err == nil && job.Ended {
		err = fmt.Errorf("job %s has ended: %s: %s: a job that is measured has to train on until it is stopped", p.id, job.Phase, output.OneLine(job.Reason))
	}
	return job, err
}

// end ends the job, whatever the caller's context has come to, and returns what is recorded of
// the sizes that were measured.
func (p *profile) end(measured []int) (Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	if _, err := ask.Stop(ctx, p.client, p.id, true); err != nil {
		return Result{Job: p.id}, fmt.Errorf("stop job %s: %w: stop it with 'bellows stop --now %s'", p.id, err, p.id)
	}
	for {
		job, err := p.client.Job(ctx, p.id)
		result := Result{Job: p.id, Kind: job.Kind, Starts: job.Starts}
		for _, s := range job.Speeds {
			if s.Measured && slices.Contains(measured, s.Workers) {
				result.Speeds = append(result.Speeds, s)
			}
		}
		// The last generation's speed is recorded with its end or right after it.
		if err == nil && job.Ended && (len(result.Speeds) == len(measured) || time.Since(job.Since) > endWithin/4) {
			return result, nil
		}
		select {
		case <-ctx.Done():
			return result, fmt.Errorf("job %s was told to end, and has not after %s: see 'bellows show %s'", p.id, endWithin, p.id)
		case <-time.After(lookEvery):
		}
	}
}

func (p *profile) tell(format string, args ...any) {
	fmt.Fprintf(p.Told, p.id+": "+format+"\n", args...)
}
