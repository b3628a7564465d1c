package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/lab/trace"
)

// What Hu et al. say of their jobs (section 5.1): so many in two days and two
// hours, of which so many trained for five minutes or more, for so long on
// average, and all of them together for so long. Nothing else of them is public.
const (
	syntheticJobs  = 1252
	syntheticLong  = 447
	syntheticSpan  = 50*time.Hour - 18*time.Minute - 22*time.Second
	syntheticMean  = 232.6 * 60 // seconds, of the long ones
	syntheticShort = (1252*84.3 - 447*232.6) / (1252 - 447) * 60
	// syntheticSpread is the standard deviation of the logarithm of long jobs'
	// times, much like that of Philly's.
	syntheticSpread = 1.5
)

// SyntheticName is the name of the trace that Synthetic draws.
const SyntheticName = "synthetic"

// Synthetic draws a load like that of Hu et al.: arrivals at any time alike,
// short jobs with exponential times below five minutes, long ones with
// log-normal times above, all brought to the published means, on 1, 2, 4, 8 or
// 16 nodes with the odds of Philly (about 70, 12, 8, 7 and 3 in 100).
func Synthetic(seed uint64) trace.File {
	rng := rand.New(rand.NewPCG(seed, 447))
	f := trace.File{Name: SyntheticName, Format: "plain"}
	seconds := make([]float64, syntheticJobs)
	for i := range seconds {
		if i < syntheticLong {
			seconds[i] = math.Exp(syntheticSpread * rng.NormFloat64())
		} else {
			seconds[i] = min(rng.ExpFloat64(), 2)
		}
	}
	bring(seconds[:syntheticLong], 300, syntheticMean)
	bring(seconds[syntheticLong:], 1, syntheticShort)
	rng.Shuffle(len(seconds), func(i, k int) { seconds[i], seconds[k] = seconds[k], seconds[i] })
	times := make([]time.Duration, syntheticJobs)
	for i := range times {
		times[i] = time.Duration(rng.Int64N(int64(syntheticSpan))).Truncate(time.Second)
	}
	slices.Sort(times)
	for i := range times {
		f.Arrivals = append(f.Arrivals, trace.Arrival{
			ID: fmt.Sprintf("s%04d", i), Submit: times[i], Workers: syntheticNodes(rng.Float64()), Duration: Seconds(seconds[i]).Round(time.Millisecond),
		})
	}
	return f
}

// bring scales values so that, with least added to each, their mean is as said.
func bring(v []float64, least, wanted float64) {
	scale := (wanted - least) / mean(v)
	for i := range v {
		v[i] = least + float64(v[i]*scale)
	}
}

func syntheticNodes(u float64) int {
	for i, below := range [...]float64{0.70, 0.82, 0.90, 0.97} {
		if u < below {
			return 1 << i
		}
	}
	return 16
}
