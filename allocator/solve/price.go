package solve

import "math"

// kind is how a job's best plan is found.
type kind uint8

const (
	settled   kind = iota // its least number finishes it in the first step: the same plan is best at any prices
	finishing             // it may finish within the horizon: dynamic programming over its shape
	endless               // it cannot finish: each step is decided by itself
)

// job is a Job with what is computed of it once.
type job struct {
	kind    kind
	low     int     // its options are Counts[low:low+len(speeds)]
	present int     // the option in force, -1 if it is none
	bonus   float64 // for beginning with it
	scale   float64 // fraction of the job done by one unit of speed in one step
	speeds  []float64
	shape   *shape
	sums    []float64 // of the shape's states
}

// fraction is what share of the job is done at a sum of speeds.
func (j *job) fraction(sum float64) float64 { return min(1, sum*j.scale) }

// gain is the value of an endless job's option k in step t, over the rest of the horizon.
func (j *job) gain(t, k, steps int) float64 {
	g := j.scale * j.speeds[k] * float64(steps-t)
	if t == 0 && k == j.present {
		g += j.bonus
	}
	return g
}

// prices are those of a device in each step; cost is that of each of Counts.
type prices struct {
	steps, counts int
	lambda        [maxSteps]float64
	cost          [maxSteps * maxCounts]float64 // by step and index of Counts; +Inf = not available
}

func (q *prices) set(lambda *[maxSteps]float64, counts []int) {
	q.lambda, q.counts = *lambda, len(counts)
	for t := range q.steps {
		for k, c := range counts {
			q.cost[t*maxCounts+k] = lambda[t] * float64(c)
		}
	}
}

// cap makes the counts above room[t] unavailable in step t.
func (q *prices) cap(room *[maxSteps]int, counts []int) {
	for t := range q.steps {
		for k, c := range counts {
			if c > room[t] {
				q.cost[t*maxCounts+k] = math.Inf(1)
			}
		}
	}
}

// table is scratch for the dynamic programme of one job.
type table struct {
	togo []float64 // by state: the highest value from here on
	with []float64 // togo, plus the value of the state itself
}

func (b *table) size(n int) {
	if len(b.togo) < n {
		b.togo, b.with = make([]float64, n), make([]float64, n)
	}
}

// tail fills in the value of a finished job in steps t, t+1, …: all of it, at the cost of its least number.
func (q *prices) tail(low int, tail *[maxSteps + 1]float64) {
	tail[q.steps] = 0
	for t := q.steps - 1; t >= 0; t-- {
		tail[t] = tail[t+1] + 1 - q.cost[t*maxCounts+low]
	}
}

// overrun is the value of the job's best plan among those that do more than its
// work, if the surplus counted too: -Inf if there is none. A plan that loses less
// than this one against the best plan of an endless job never finishes the job.
func (b *table) overrun(j *job, q *prices) float64 {
	s := j.shape
	n := s.layer[s.steps+1]
	b.size(n)
	with := b.with[:n]
	for at := s.layer[s.steps]; at < n; at++ {
		with[at] = math.Inf(-1)
		if f := j.sums[at] * j.scale; f > 1 {
			with[at] = f
		}
	}
	for t := s.steps - 1; t >= 1; t-- {
		cost := q.cost[t*maxCounts+j.low:][:s.options]
		for at := s.layer[t]; at < s.layer[t+1]; at++ {
			best := math.Inf(-1)
			for k, child := range s.child[at*s.options:][:s.options] {
				if v := with[child] - cost[k]; v > best {
					best = v
				}
			}
			with[at] = j.sums[at]*j.scale + best
		}
	}
	best := math.Inf(-1)
	for k := range s.options {
		best = max(best, b.first(j, q, k))
	}
	return best
}

// value fills in the table for a finishing job and returns the value of its best plan.
func (b *table) value(j *job, q *prices) float64 {
	s := j.shape
	n := s.layer[s.steps+1]
	b.size(n)
	var tail [maxSteps + 1]float64
	q.tail(j.low, &tail)
	with, togo := b.with[:n], b.togo[:n]
	for at := s.layer[s.steps]; at < n; at++ {
		with[at] = j.fraction(j.sums[at])
	}
	options := s.options
	for t := s.steps - 1; t >= 1; t-- {
		cost := q.cost[t*maxCounts+j.low:][:options]
		for at := s.layer[t]; at < s.layer[t+1]; at++ {
			f := j.sums[at] * j.scale
			if f >= 1 {
				togo[at] = tail[t]
				with[at] = 1 + tail[t]
				continue
			}
			best := math.Inf(-1)
			for k, child := range s.child[at*options:][:options] {
				if v := with[child] - cost[k]; v > best {
					best = v
				}
			}
			togo[at] = best
			with[at] = f + best
		}
	}
	best := math.Inf(-1)
	for k := range options {
		if v := b.first(j, q, k); v > best {
			best = v
		}
	}
	togo[0] = best
	return best
}

// first is the value of beginning with option k.
func (b *table) first(j *job, q *prices, k int) float64 {
	v := b.with[j.shape.child[k]] - q.cost[j.low+k]
	if k == j.present {
		v += j.bonus
	}
	return v
}

// path reads the best plan out of the table, as options; the smallest among equals.
func (b *table) path(j *job, q *prices, plan *[maxSteps]uint8) {
	s := j.shape
	at := int32(0)
	for t := range s.steps {
		if t > 0 && j.sums[at]*j.scale >= 1 {
			plan[t] = 0
			at = s.child[int(at)*s.options]
			continue
		}
		best, pick := math.Inf(-1), 0
		for k := range s.options {
			v := b.with[s.child[int(at)*s.options+k]] - q.cost[t*maxCounts+j.low+k]
			if t == 0 && k == j.present {
				v += j.bonus
			}
			if v > best {
				best, pick = v, k
			}
		}
		plan[t] = uint8(pick)
		at = s.child[int(at)*s.options+pick]
	}
}

// best finds the job's best plan at the prices: its value after paying, and its options.
func (b *table) best(j *job, q *prices, plan *[maxSteps]uint8) float64 {
	switch j.kind {
	case finishing:
		v := b.value(j, q)
		b.path(j, q, plan)
		return v
	case endless:
		total := 0.0
		for t := range q.steps {
			best, pick := math.Inf(-1), 0
			for k := range j.speeds {
				if v := j.gain(t, k, q.steps) - q.cost[t*maxCounts+j.low+k]; v > best {
					best, pick = v, k
				}
			}
			plan[t] = uint8(pick)
			total += best
		}
		return total
	case settled:
		clear(plan[:])
		v := 0.0
		for t := range q.steps {
			v += 1 - q.cost[t*maxCounts+j.low]
		}
		return v
	}
	panic("solve: a job of no kind")
}
