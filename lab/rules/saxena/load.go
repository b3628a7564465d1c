package saxena

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/lab/sim"
	"github.com/bellows-ml/bellows/lab/trace"
)

// Bursts is the prefix of the names of drawn loads: jobs of bursts-8h-0.9 come over eight
// hours, in bursts of 0.9 times what the cluster could do with one device for each job.
const Bursts = "bursts-"

// Their bursts (section IV-G): two hours of many arrivals, two of few. A low rate is a quarter of
// a high one (section IV-A); how high the "very high" one of the tables is, it does not say.
const (
	burst = 2 * time.Hour
	quiet = 1.0 / 4
)

// Load is a load to draw.
type Load struct {
	Over time.Duration // jobs come
	Rush float64       // arrivals in a burst, relative to what all devices could do, one a job
}

// ReadLoad reads the name of a drawn load; false if it is none.
func ReadLoad(name string) (l Load, drawn bool, err error) {
	text, drawn := strings.CutPrefix(name, Bursts)
	if !drawn {
		return Load{}, false, nil
	}
	over, rush, _ := strings.Cut(text, "-")
	l.Over, err = time.ParseDuration(over)
	var errRush error
	l.Rush, errRush = strconv.ParseFloat(rush, 64)
	if err != nil || errRush != nil || l.Over < time.Minute || l.Over > 30*24*time.Hour || !(l.Rush > 0 && l.Rush <= 100) {
		return Load{}, true, fmt.Errorf("trace %.60q: write %s8h-0.9 for jobs that come over eight hours (1m to 720h), in bursts of 0.9 times "+
			"(up to 100) what the cluster can do", name, Bursts)
	}
	return l, true, nil
}

// Draw draws a load for a cluster: Poisson arrivals in bursts, of each category alike. The
// batch of a job is the one that the baseline keeps: any of its category's, alike (Random-BS).
func (l Load) Draw(seed uint64, on sim.Machines) trace.File {
	rng := rand.New(rand.NewPCG(seed, 400))
	f := trace.File{Name: Bursts, Format: "plain"}
	capacity := float64(on.Devices()) / (meanMinutes() * 60) // jobs a second
	kinds := categories()
	for at := 0.0; ; {
		rate := l.Rush
		if time.Duration(at*float64(time.Second))%(2*burst) >= burst {
			rate *= quiet
		}
		// Where the rate changes before the next arrival, the exponential begins anew.
		wait := rng.ExpFloat64() / (rate * capacity)
		change := burst.Seconds() - float64(time.Duration(at*float64(time.Second))%burst)/float64(time.Second)
		if wait > change {
			at += change
			if at >= l.Over.Seconds() {
				return f
			}
			continue
		}
		if at += wait; at >= l.Over.Seconds() {
			return f
		}
		c := kinds[rng.IntN(len(kinds))]
		f.Arrivals = append(f.Arrivals, trace.Arrival{
			ID: fmt.Sprintf("b%05d", len(f.Arrivals)), Submit: sim.Seconds(at).Round(time.Millisecond), Workers: 1, Model: c.model,
			Duration: sim.Seconds(c.minutes * 60), BatchSize: c.least + rng.IntN(c.most-c.least+1),
		})
	}
}
