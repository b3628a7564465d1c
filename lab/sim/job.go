package sim

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/allocator/goodput"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/machine"
	"github.com/bellows-ml/bellows/lab/trace"
	"github.com/bellows-ml/bellows/record"
)

// Job is one job to simulate.
type Job struct {
	trace.Arrival
	Work  time.Duration // on one device
	Speed Speed
	// On is how fast it is on devices of each model, where there are several; nil = Speed on all.
	On map[string]OnModel
	// Command is its command line, by which production knows jobs of one kind; empty = one like no other's.
	Command    []string
	MinWorkers int // powers of two, unless
	MaxWorkers int
	Sizes      []int         // lists what it may have; empty = the powers of two
	ETA        time.Duration // Work as its owner believes it to be
	// Batch is what its owner allows, and Micro the samples that a device takes at once;
	// zero = one batch, of which only the speed is known.
	Batch cluster.BatchSize
	Micro int
	// Where is which nodes its owner allows, and which devices its owner would rather have.
	Where cluster.Where
	// Bug is how much of Work is done when a bug ends it; 0 = none.
	Bug time.Duration
	// Grace is for how long after Deadline an end is of use still.
	Grace time.Duration
	// Patience is how long after submission its owner stops it, if it has not ended; 0 = never.
	Patience time.Duration
}

// Model says how arrivals become jobs.
type Model struct {
	// Profile gives speeds and, where the trace has none, durations; nil = the paper's model for every job.
	Profile trace.Profile
	Device  string // of the profile; empty if it has only one
	// Devices are those of the profile that the cluster has, where there are several.
	Devices []string
	// Rigid jobs keep the number of workers that their users asked for.
	Rigid      bool
	MaxWorkers int           // of elastic jobs
	Longest    time.Duration // durations are cut to this; 0 = not
	Shortest   time.Duration // shorter jobs are left out
	// ETANoise n makes what owners believe a random factor in [1-n, 1+n] of the truth.
	ETANoise float64
	// Buggy and Impatient are the shares of jobs that end early: by a bug, which
	// comes within the first five minutes of Work, or stopped by their owners,
	// at any time between submission and as much later as Work takes on one device.
	Buggy, Impatient float64
	Seed             uint64
}

// bugsWithin is how soon a buggy job fails on one device (Hu et al., section 5.4:
// within five minutes); with more devices it comes to its bug the sooner.
const bugsWithin = 5 * time.Minute

// Jobs applies the model. Its draws depend on the seed and a job's place in the trace only.
func (m Model) Jobs(f trace.File) ([]Job, error) {
	var out []Job
	for i, a := range f.Arrivals {
		rng := rand.New(rand.NewPCG(m.Seed, uint64(i)))
		if a.Duration > 0 && a.Duration < m.Shortest {
			continue
		}
		j, err := m.job(a)
		if err != nil {
			return nil, fmt.Errorf("%s: job %.60q: %w", f.At(a), a.ID, err)
		}
		noise, fate, when := rng.Float64(), rng.Float64(), rng.Float64()
		j.ETA = time.Duration(float64(j.Work) * (1 + m.ETANoise*(2*noise-1)))
		switch {
		case fate < m.Buggy:
			j.Bug = min(j.Work, time.Duration(when*float64(bugsWithin))+1)
		case fate < m.Buggy+m.Impatient:
			j.Patience = time.Duration(when*float64(j.Work)) + 1
		}
		out = append(out, j)
	}
	return out, nil
}

func (m Model) job(a trace.Arrival) (Job, error) {
	j := Job{Arrival: a, MinWorkers: 1, MaxWorkers: m.MaxWorkers}
	if bits.OnesCount(uint(a.Workers)) != 1 && m.Rigid {
		return Job{}, fmt.Errorf("it asks for %d devices: worlds have 1, 2, 4, 8, … workers; let it be elastic", a.Workers)
	}
	if m.Rigid {
		j.MinWorkers, j.MaxWorkers = a.Workers, a.Workers
	}
	one, steps := 0.0, a.Iterations
	if m.Profile != nil {
		curve, err := m.Profile.Curve(m.Device, a.Model, a.BatchSize)
		if err != nil {
			return Job{}, err
		}
		j.Speed, one = curveOf(curve)
		if j.On, err = m.onModels(a, one); err != nil {
			return Job{}, err
		}
		j.Command = []string{"train", a.Model, strconv.Itoa(a.BatchSize)}
		if steps == 0 {
			steps = curve[0].Target
		}
	}
	duration := a.Duration
	switch {
	case duration == 0 && one > 0 && steps > 0:
		j.Work = time.Duration(float64(steps) / one * float64(time.Second))
	case duration == 0:
		return Job{}, fmt.Errorf("the trace has no duration for it: give a profile with its model, and iterations in the trace or iters_to_target in the profile")
	default:
		if m.Longest > 0 {
			duration = min(duration, m.Longest)
		}
		j.Work = time.Duration(math.Round(float64(duration) * m.asked(j)))
	}
	return j, nil
}

// asked is the speed on the number of devices that the trace's duration is for.
func (m Model) asked(j Job) float64 {
	if m.Profile == nil {
		return goodput.Default(j.Workers)
	}
	return j.Speed.On(1 << (bits.Len(uint(j.Workers)) - 1))
}

// job is a job under way.
type job struct {
	Job
	id    cluster.JobID
	index int // in Config.Jobs

	ruled   bool // by Rules
	phase   cluster.Phase
	gen     *generation // the newest; nil before the first
	done    float64     // work done, in seconds on one device
	saved   float64     // of it, what the last checkpoint holds
	commit  int64       // step of the last checkpoint
	resumed int         // generations that replaced a running one

	ends       time.Duration // when its workers came to their end, if they did
	ended      time.Duration // when it reached its last phase, or came to its end, which may be seen later
	waitsSince time.Duration // -1 while it has devices
	waited     time.Duration
	trained    time.Duration // time with workers
	held       float64       // device seconds
	told       []Told
	foretold   *Foretold
	known      record.Speed // that was told of it beforehand
	losses     goodput.LossMeter
}

// generation is one world of a job.
type generation struct {
	number  cluster.Generation
	world   cluster.World
	from    int
	speed   float64 // relative to one device
	planned time.Duration
	started bool
	since   time.Duration   // work is counted up to here; training begins later where this is in the future
	first   time.Duration   // when its first step is done
	frozen  bool            // ranks are held, dead or lost: no work is done
	saving  bool            // a node's ranks have saved at the halt
	shims   []*machine.Shim // whose workers were executed, in the order in which that happened
	gone    bool            // nothing is left of it
	ending  int             // counts forecasts of its end: only the newest counts
}

// stepsPerSecond is how many steps of a simulated job one device does in a
// second: fine enough that rounding to whole steps does not show.
const stepsPerSecond = 1000

// step is the optimiser step that the job has come to.
func (j *job) step() int64 { return int64(j.done * stepsPerSecond) }

// steps is how many it takes in all.
func (j *job) steps() int64 { return max(1, int64(math.Ceil(j.Work.Seconds()*stepsPerSecond))) }

// advance counts the work done up to now.
func (j *job) advance(now time.Duration) {
	g := j.gen
	if g == nil || !g.started || g.frozen || now <= g.since {
		return
	}
	if j.ruled { // what it does is counted elsewhere; here it only has to grow
		j.done += float64((now - g.since).Seconds())
		g.since = now
		return
	}
	// The conversion keeps compilers from fusing the two operations on some machines only.
	j.done = min(j.Work.Seconds(), j.done+float64((now-g.since).Seconds()*g.speed))
	g.since = now
}

// left is how long the present world needs until the job ends, by itself or by its bug.
func (j *job) left() time.Duration {
	goal := j.Work
	if j.Bug > 0 {
		goal = j.Bug
	}
	s := max(0, goal.Seconds()-j.done) / j.gen.speed
	return time.Duration(math.Ceil(s * float64(time.Second)))
}
