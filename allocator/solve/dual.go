package solve

import "math"

// Constants of the search for prices. More of each stopped paying on problems
// of 30 to 10,000 jobs.
const (
	blockJobs  = 128 // jobs summed up together: fixed, so that sums do not depend on cores
	maxColumns = 24  // plans remembered a job
	bisections = 6   // of the price level, to begin with
	newtons    = 4   // steps between two evaluations
	firstBlur  = 0.1 // of the mean price
	lastBlur   = 0.003
	blurFactor = 0.7
	firstReach = 0.3
	looks      = 24
	enough     = 2e-7
)

// block is a run of jobs and what one pass over them adds up.
type block struct {
	from, to int
	table    table
	value    float64
	use      [maxSteps]float64
	spread   [maxSteps * maxSteps]float64 // d use / d price, up to the sign and the blur
	weight   [maxColumns]float64
	product  float64 // of the sums whose logarithm is to be added to value
}

// columns are the plans of finishing jobs that were best at some prices: the
// part of the problem that is known without dynamic programming.
type columns struct {
	count []int     // by job
	value []float64 // by job and column: before paying
	use   []float64 // by job, column and step
}

// evaluate finds every job's best plan at the prices. The sum of their values
// and of the price of all devices is a bound for every plan; it is kept if it
// is the lowest so far. use is what the best plans need together.
func (s *Solver) evaluate(lambda *[maxSteps]float64) (bound float64, use [maxSteps]float64) {
	s.effort.Evaluations++
	s.prices.set(lambda, s.p.Counts)
	s.inBlocks(planning)
	for k := range s.blocks {
		bound += s.blocks[k].value
		for t := range s.p.Steps {
			use[t] += s.blocks[k].use[t]
		}
	}
	for t := range s.p.Steps {
		bound += lambda[t] * float64(s.p.Devices)
	}
	if bound < s.bound {
		s.bound, s.lambda = bound, *lambda
	}
	return bound, use
}

// plan finds the best plan of each job of the block.
func (s *Solver) plan(b *block) {
	b.value, b.use = 0, [maxSteps]float64{}
	for i := b.from; i < b.to; i++ {
		j := &s.jobs[i]
		plan := &s.best[i]
		b.value += b.table.best(j, &s.prices, plan)
		for t := range s.p.Steps {
			b.use[t] += float64(s.p.Counts[j.low+int(plan[t])])
		}
		if j.kind == finishing {
			s.remember(i)
		}
	}
}

// remember adds job i's best plan to its columns unless it is there.
func (s *Solver) remember(i int) {
	c, j, steps := &s.columns, &s.jobs[i], s.p.Steps
	var use [maxSteps]float64
	value, sum := 0.0, 0.0
	for t := range steps {
		k := int(s.best[i][t])
		use[t] = float64(s.p.Counts[j.low+k])
		sum += j.speeds[k]
		value += j.fraction(sum)
		if t == 0 && k == j.present {
			value += j.bonus
		}
	}
	n := c.count[i]
next:
	for k := range n {
		have := c.use[(i*maxColumns+k)*steps:][:steps]
		for t, u := range have {
			if u != use[t] {
				continue next
			}
		}
		return
	}
	if n == maxColumns {
		n = s.effort.Evaluations % maxColumns // forget one
	} else {
		c.count[i]++
	}
	c.value[i*maxColumns+n] = value
	copy(c.use[(i*maxColumns+n)*steps:][:steps], use[:])
}

// blurred is the dual function over the known columns, with each maximum
// softened so that it has two derivatives. It returns its value, and the use
// and its spread for the Newton step.
func (s *Solver) blurred(lambda *[maxSteps]float64, blur float64) (value float64) {
	s.prices.set(lambda, s.p.Counts)
	s.blur = blur
	s.inBlocks(blurring)
	s.use, s.spread = [maxSteps]float64{}, [maxSteps * maxSteps]float64{}
	for k := range s.blocks {
		b := &s.blocks[k]
		value += b.value
		for t := range s.p.Steps {
			s.use[t] += b.use[t]
			for u := range s.p.Steps {
				s.spread[t*maxSteps+u] += b.spread[t*maxSteps+u]
			}
		}
	}
	for t := range s.p.Steps {
		value += lambda[t] * float64(s.p.Devices)
	}
	return value
}

// blurBlock adds up the block's part of the blurred dual function.
func (s *Solver) blurBlock(b *block) {
	b.value, b.product, b.use, b.spread = 0, 1, [maxSteps]float64{}, [maxSteps * maxSteps]float64{}
	for i := b.from; i < b.to; i++ {
		switch j := &s.jobs[i]; j.kind {
		case finishing:
			s.blurColumns(b, i)
		case endless:
			s.blurSteps(b, j)
		case settled:
			for t := range s.p.Steps {
				b.value += 1 - s.prices.cost[t*maxCounts+j.low]
				b.use[t] += float64(s.p.Counts[j.low])
			}
		}
	}
	b.value += s.blur * math.Log(b.product)
}

// faint is the share of blur beyond which a plan is too much worse than the best to matter: exp(-20).
const faint = 20

// times adds blur·log(total) to the value, many of them with one logarithm.
func (b *block) times(total, blur float64) {
	const large = 1e200
	if b.product *= total; b.product > large {
		b.value += blur * math.Log(b.product)
		b.product = 1
	}
}

// soften is exp(x) for x ≤ 0, mostly without the function.
func soften(x float64) float64 {
	switch {
	case x == 0:
		return 1
	case x < -faint:
		return 0
	}
	return math.Exp(x)
}

func (s *Solver) blurColumns(b *block, i int) {
	lambda, blur := &s.prices.lambda, s.blur
	c, steps := &s.columns, s.p.Steps
	n := c.count[i]
	use := c.use[i*maxColumns*steps:][:n*steps]
	worth := b.weight[:n]
	top := math.Inf(-1)
	for k := range worth {
		v := c.value[i*maxColumns+k]
		for t, u := range use[k*steps:][:steps] {
			v -= lambda[t] * u
		}
		worth[k] = v
		top = max(top, v)
	}
	total := 0.0
	for k, v := range worth {
		worth[k] = soften((v - top) / blur)
		total += worth[k]
	}
	b.value += top
	b.times(total, blur)
	var mean [maxSteps]float64
	for k, w := range worth {
		if w == 0 {
			continue
		}
		w /= total
		worth[k] = w
		for t, u := range use[k*steps:][:steps] {
			mean[t] += w * u
		}
	}
	for t := range steps {
		b.use[t] += mean[t]
	}
	for k, w := range worth {
		if w == 0 {
			continue
		}
		u := use[k*steps:][:steps]
		for t := range u {
			d := w * (u[t] - mean[t])
			for v := t; v < steps; v++ {
				b.spread[t*maxSteps+v] += d * (u[v] - mean[v])
			}
		}
	}
}

func (s *Solver) blurSteps(b *block, j *job) {
	blur := s.blur
	n := len(j.speeds)
	counts := s.p.Counts[j.low:][:n]
	for t := range s.p.Steps {
		worth := b.weight[:n]
		top := math.Inf(-1)
		cost := s.prices.cost[t*maxCounts+j.low:][:n]
		for k := range worth {
			worth[k] = j.gain(t, k, s.p.Steps) - cost[k]
			top = max(top, worth[k])
		}
		total, mean, square := 0.0, 0.0, 0.0
		for k, v := range worth {
			if w := soften((v - top) / blur); w > 0 {
				c := float64(counts[k])
				total += w
				mean += w * c
				square += w * c * c
			}
		}
		mean /= total
		b.value += top
		b.times(total, blur)
		b.use[t] += mean
		b.spread[t*maxSteps+t] += square/total - mean*mean
	}
}

// seekPrices looks for the prices with the lowest bound: the model of known
// columns says where to look next, within a factor of the best prices so far,
// and what is found there improves the model.
func (s *Solver) seekPrices(from []float64) {
	center := s.firstPrices(from)
	mean := 0.0
	for t := range s.p.Steps {
		mean += center[t] / float64(s.p.Steps)
	}
	if mean == 0 {
		return // there are devices enough for everybody at no price
	}
	center, best := s.lambda, s.bound
	reach, blur := firstReach, firstBlur*mean
	for range looks {
		next := center
		model := s.newton(&next, blur, reach)
		found, _ := s.evaluate(&next)
		promised, kept := best-model, best-found
		if kept > 0.3*promised {
			reach = min(1, reach*1.5)
		} else if kept < 0 {
			reach *= 0.6
		}
		if kept > 0 {
			center, best = next, found
		}
		if blur == lastBlur*mean && kept < enough*best {
			break
		}
		blur = max(blur*blurFactor, lastBlur*mean)
	}
}

// firstPrices finds a level at which prices that fall like the rest of the
// horizon roughly balance demand and supply, unless there are prices to begin with.
func (s *Solver) firstPrices(from []float64) [maxSteps]float64 {
	var lambda [maxSteps]float64
	if len(from) == s.p.Steps {
		copy(lambda[:], from)
		s.evaluate(&lambda)
		return lambda
	}
	at := func(level float64) (over bool) {
		for t := range s.p.Steps {
			lambda[t] = level * float64(s.p.Steps-t)
		}
		_, use := s.evaluate(&lambda)
		for t := range s.p.Steps {
			over = over || use[t] > float64(s.p.Devices)
		}
		return over
	}
	if !at(0) {
		return lambda
	}
	low, high := 0.0, s.topLevel()
	for range bisections {
		level := high / 16
		if low > 0 {
			level = math.Sqrt(low * high)
		} else if high < s.topLevel()*1e-9 {
			break
		}
		if at(level) {
			low = level
		} else {
			high = level
		}
	}
	return lambda
}

// topLevel is a price level at which nobody wants more than the least number.
func (s *Solver) topLevel() float64 {
	top := 0.0
	for i := range s.jobs {
		j := &s.jobs[i]
		for k := 1; k < len(j.speeds); k++ {
			more := float64(s.p.Counts[j.low+k] - s.p.Counts[j.low+k-1])
			top = max(top, min(1, j.scale*(j.speeds[k]-j.speeds[k-1]))/more)
		}
	}
	return top
}

// newton takes a few steps down the blurred dual function, no price further
// than by a factor of 1+reach from where it began, and returns its value there.
func (s *Solver) newton(lambda *[maxSteps]float64, blur, reach float64) float64 {
	begin := *lambda
	value := s.blurred(lambda, blur)
	for range newtons {
		step := s.newtonStep(lambda, blur)
		old, was := *lambda, value
		for range 4 {
			for t := range s.p.Steps {
				lambda[t] = min(max(old[t]+step[t], begin[t]/(1+reach)), max(begin[t]*(1+reach), blur*reach))
				step[t] /= 4
			}
			if value = s.blurred(lambda, blur); value < was {
				break
			}
		}
		if value >= was {
			*lambda = old
			return was
		}
		if was-value < 1e-7*was {
			break
		}
	}
	return value
}

// newtonStep solves spread/blur × step = use − devices.
func (s *Solver) newtonStep(lambda *[maxSteps]float64, blur float64) (step [maxSteps]float64) {
	n := s.p.Steps
	var a [maxSteps][maxSteps + 1]float64
	for t := range n {
		for u := range n {
			a[t][u] = s.spread[min(t, u)*maxSteps+max(t, u)] / blur
		}
		a[t][n] = s.use[t] - float64(s.p.Devices)
		// Where no job's choice is in doubt the spread is 0: then the step is
		// bounded by a demand that falls like one over the price.
		a[t][t] += 0.02*float64(s.p.Devices)/max(lambda[t], blur) + 1e-12
	}
	for t := range n { // symmetric and positive: elimination needs no pivots
		for u := t + 1; u < n; u++ {
			f := a[u][t] / a[t][t]
			for v := t; v <= n; v++ {
				a[u][v] -= f * a[t][v]
			}
		}
	}
	for t := n - 1; t >= 0; t-- {
		x := a[t][n]
		for u := t + 1; u < n; u++ {
			x -= a[t][u] * step[u]
		}
		step[t] = x / a[t][t]
	}
	return step
}
