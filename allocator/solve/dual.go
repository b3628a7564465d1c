package solve

import "math"

// Constants of the search for prices. More of each stopped paying on problems
// of 30 to 10,000 jobs.
const (
	blockJobs       = 128 // jobs summed up together: another number would round sums differently
	maxColumns      = 24  // plans remembered a job
	bisections      = 6   // of the price level, to begin with
	newtons         = 4   // steps between two evaluations
	firstSmoothing  = 0.1 // of the mean price
	lastSmoothing   = 0.003
	smoothingFactor = 0.7
	firstRadius     = 0.3
	maxRounds       = 24
	tolerance       = 2e-7
	warmDoublings   = 3 // of earlier prices
)

// block is a run of jobs and what one pass over them adds up.
type block struct {
	from, to int
	table    table
	value    float64
	use      [maxSteps]float64
	spread   [maxSteps * maxSteps]float64 // d use / d price, up to the sign and the smoothing
	weight   [maxColumns]float64
	product  float64 // of the sums whose logarithm is to be added to value
}

// columns are the plans of finishing jobs that were best at some prices: the
// part of the problem that needs no dynamic programming.
type columns struct {
	count []int     // by job
	value []float64 // by job and column: before paying
	use   []float64 // by job, column and step
}

// dual is the search for the prices of devices at which the bound is lowest.
type dual struct {
	instance
	blocks    []block
	prices    prices
	best      [][maxSteps]uint8 // by job: the best plan at the prices last evaluated
	columns   columns
	smoothing float64
	bound     float64           // the lowest so far
	lambda    [maxSteps]float64 // the prices of that bound
	use       [maxSteps]float64
	spread    [maxSteps * maxSteps]float64
	effort    Effort
}

func (d *dual) prepare(p *Problem) {
	d.instance.prepare(p)
	n := len(p.Jobs)
	d.best = resize(d.best, n)
	d.columns.count = resize(d.columns.count, n)
	d.columns.value = resize(d.columns.value, n*maxColumns)
	d.columns.use = resize(d.columns.use, n*maxColumns*p.Steps)
	clear(d.columns.count)
	count := (n + blockJobs - 1) / blockJobs
	d.blocks = resize(d.blocks, count)
	for k := range d.blocks {
		d.blocks[k].from, d.blocks[k].to = k*blockJobs, min(n, (k+1)*blockJobs)
	}
	d.prices = prices{steps: p.Steps}
	d.bound, d.effort = math.Inf(1), Effort{}
}

// evaluate finds every job's best plan at the prices. The sum of their values
// and of the price of all devices is a bound for every plan; it is kept if it
// is the lowest so far. use is what the best plans need together.
func (d *dual) evaluate(lambda *[maxSteps]float64) (bound float64, use [maxSteps]float64) {
	d.effort.Evaluations++
	d.prices.set(lambda, d.p.Counts)
	for k := range d.blocks {
		b := &d.blocks[k]
		d.plan(b)
		bound += b.value
		for t := range d.p.Steps {
			use[t] += b.use[t]
		}
	}
	for t := range d.p.Steps {
		bound += lambda[t] * float64(d.p.Devices)
	}
	if bound < d.bound {
		d.bound, d.lambda = bound, *lambda
	}
	return bound, use
}

// plan finds the best plan of each job of the block.
func (d *dual) plan(b *block) {
	b.value, b.use = 0, [maxSteps]float64{}
	for i := b.from; i < b.to; i++ {
		j := &d.jobs[i]
		plan := &d.best[i]
		b.value += b.table.best(j, &d.prices, plan)
		for t := range d.p.Steps {
			b.use[t] += float64(d.p.Counts[j.low+int(plan[t])])
		}
		if j.kind == finishing {
			d.remember(i)
		}
	}
}

// remember adds job i's best plan to its columns unless it is there.
func (d *dual) remember(i int) {
	c, j, steps := &d.columns, &d.jobs[i], d.p.Steps
	var use [maxSteps]float64
	value, sum := 0.0, 0.0
	for t := range steps {
		k := int(d.best[i][t])
		use[t] = float64(d.p.Counts[j.low+k])
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
		n = d.effort.Evaluations % maxColumns // replace one
	} else {
		c.count[i]++
	}
	c.value[i*maxColumns+n] = value
	copy(c.use[(i*maxColumns+n)*steps:][:steps], use[:])
}

// smoothed is the dual function over the known columns, with each maximum smoothed
// so that it has two derivatives. It returns its value and leaves the use and its
// spread for the Newton step.
func (d *dual) smoothed(lambda *[maxSteps]float64, smoothing float64) (value float64) {
	d.prices.set(lambda, d.p.Counts)
	d.smoothing = smoothing
	d.use, d.spread = [maxSteps]float64{}, [maxSteps * maxSteps]float64{}
	for k := range d.blocks {
		b := &d.blocks[k]
		d.smoothBlock(b)
		value += b.value
		for t := range d.p.Steps {
			d.use[t] += b.use[t]
			for u := range d.p.Steps {
				d.spread[t*maxSteps+u] += b.spread[t*maxSteps+u]
			}
		}
	}
	for t := range d.p.Steps {
		value += lambda[t] * float64(d.p.Devices)
	}
	return value
}

// smoothBlock adds up the block's part of the smoothed dual function.
func (d *dual) smoothBlock(b *block) {
	b.value, b.product, b.use, b.spread = 0, 1, [maxSteps]float64{}, [maxSteps * maxSteps]float64{}
	for i := b.from; i < b.to; i++ {
		switch j := &d.jobs[i]; j.kind {
		case finishing:
			d.smoothColumns(b, i)
		case endless:
			d.smoothSteps(b, j)
		case settled:
			for t := range d.p.Steps {
				b.value += 1 - d.prices.cost[t*maxCounts+j.low]
				b.use[t] += float64(d.p.Counts[j.low])
			}
		}
	}
	b.value += d.smoothing * math.Log(b.product)
}

// negligible is how many times the smoothing a plan may be worse than the best and
// still count: its weight is exp(-20) then.
const negligible = 20

// times adds smoothing·log(total) to the value, many of them with one logarithm.
func (b *block) times(total, smoothing float64) {
	const large = 1e200
	if b.product *= total; b.product > large {
		b.value += smoothing * math.Log(b.product)
		b.product = 1
	}
}

// weight is exp(x) for x ≤ 0, mostly without the function.
func weight(x float64) float64 {
	switch {
	case x == 0:
		return 1
	case x < -negligible:
		return 0
	}
	return math.Exp(x)
}

func (d *dual) smoothColumns(b *block, i int) {
	lambda, smoothing := &d.prices.lambda, d.smoothing
	c, steps := &d.columns, d.p.Steps
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
		worth[k] = weight((v - top) / smoothing)
		total += worth[k]
	}
	b.value += top
	b.times(total, smoothing)
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
			off := w * (u[t] - mean[t])
			for v := t; v < steps; v++ {
				b.spread[t*maxSteps+v] += off * (u[v] - mean[v])
			}
		}
	}
}

func (d *dual) smoothSteps(b *block, j *job) {
	smoothing := d.smoothing
	n := len(j.speeds)
	counts := d.p.Counts[j.low:][:n]
	for t := range d.p.Steps {
		worth := b.weight[:n]
		top := math.Inf(-1)
		cost := d.prices.cost[t*maxCounts+j.low:][:n]
		for k := range worth {
			worth[k] = j.gain(t, k, d.p.Steps) - cost[k]
			top = max(top, worth[k])
		}
		total, mean, square := 0.0, 0.0, 0.0
		for k, v := range worth {
			if w := weight((v - top) / smoothing); w > 0 {
				c := float64(counts[k])
				total += w
				mean += w * c
				square += w * c * c
			}
		}
		mean /= total
		b.value += top
		b.times(total, smoothing)
		b.use[t] += mean
		b.spread[t*maxSteps+t] += square/total - mean*mean
	}
}

// seekPrices looks for the prices with the lowest bound: the model of known
// columns proposes prices within a factor of the best so far, and the plans that
// are best at them improve the model.
func (d *dual) seekPrices(from []float64) {
	center := d.firstPrices(from)
	mean := 0.0
	for t := range d.p.Steps {
		mean += center[t] / float64(d.p.Steps)
	}
	if mean == 0 {
		return // at no price there are enough devices for all jobs
	}
	center, best := d.lambda, d.bound
	radius, smoothing := firstRadius, firstSmoothing*mean
	for range maxRounds {
		next := center
		model := d.newton(&next, smoothing, radius)
		found, _ := d.evaluate(&next)
		promised, kept := best-model, best-found
		if kept > 0.3*promised {
			radius = min(1, radius*1.5)
		} else if kept < 0 {
			radius *= 0.6
		}
		if kept > 0 {
			center, best = next, found
		}
		if smoothing == lastSmoothing*mean && kept < tolerance*best {
			break
		}
		smoothing = max(smoothing*smoothingFactor, lastSmoothing*mean)
	}
}

// firstPrices finds a level at which prices that fall like the rest of the
// horizon roughly balance demand and supply, unless there are prices to begin with.
func (d *dual) firstPrices(from []float64) [maxSteps]float64 {
	if begin, ok := d.earlierPrices(from); ok {
		return begin
	}
	var lambda [maxSteps]float64
	at := func(level float64) (over bool) {
		for t := range d.p.Steps {
			lambda[t] = level * float64(d.p.Steps-t)
		}
		_, over = d.demand(&lambda)
		return over
	}
	if !at(0) {
		return lambda
	}
	low, high := 0.0, d.topLevel()
	for range bisections {
		level := high / 16
		if low > 0 {
			level = math.Sqrt(low * high)
		} else if high < d.topLevel()*1e-9 {
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

// demand is the bound at the prices, and whether more devices are wanted at them than there are.
func (d *dual) demand(lambda *[maxSteps]float64) (bound float64, over bool) {
	bound, use := d.evaluate(lambda)
	for t := range d.p.Steps {
		over = over || use[t] > float64(d.p.Devices)
	}
	return bound, over
}

// earlierPrices are those of an earlier problem, to begin with, or a multiple of them if
// that is better. They are no beginning where demand does not meet supply
// within a factor of 2^warmDoublings, as after many jobs have come or gone: prices that
// are far off would end the search far from the best ones. Nor is no price at all.
func (d *dual) earlierPrices(from []float64) (begin [maxSteps]float64, ok bool) {
	if len(from) != d.p.Steps {
		return begin, false
	}
	total := 0.0
	for t, price := range from {
		if !(price >= 0) || math.IsInf(price, 1) {
			return begin, false
		}
		begin[t] = price
		total += price
	}
	if total == 0 {
		return begin, false
	}
	least, over := d.demand(&begin)
	factor := 0.5
	if over {
		factor = 2
	}
	next := begin
	for range warmDoublings {
		for t := range d.p.Steps {
			next[t] *= factor
		}
		bound, still := d.demand(&next)
		if bound < least {
			begin, least = next, bound
		}
		if still != over {
			return begin, true
		}
	}
	return begin, false
}

// topLevel is a price level at which no job wants more than its least number.
func (d *dual) topLevel() float64 {
	top := 0.0
	for i := range d.jobs {
		j := &d.jobs[i]
		for k := 1; k < len(j.speeds); k++ {
			more := float64(d.p.Counts[j.low+k] - d.p.Counts[j.low+k-1])
			top = max(top, min(1, j.scale*(j.speeds[k]-j.speeds[k-1]))/more)
		}
	}
	return top
}

// newton takes a few steps down the smoothed dual function, no price further
// than by a factor of 1+radius from where it began, and returns its value there.
func (d *dual) newton(lambda *[maxSteps]float64, smoothing, radius float64) float64 {
	begin := *lambda
	value := d.smoothed(lambda, smoothing)
	for range newtons {
		step := d.newtonStep(lambda, smoothing)
		old, was := *lambda, value
		for range 4 {
			for t := range d.p.Steps {
				lambda[t] = min(max(old[t]+step[t], begin[t]/(1+radius)), max(begin[t]*(1+radius), smoothing*radius))
				step[t] /= 4
			}
			if value = d.smoothed(lambda, smoothing); value < was {
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

// newtonStep solves spread/smoothing × step = use − devices.
func (d *dual) newtonStep(lambda *[maxSteps]float64, smoothing float64) (step [maxSteps]float64) {
	n := d.p.Steps
	var a [maxSteps][maxSteps + 1]float64
	for t := range n {
		for u := range n {
			a[t][u] = d.spread[min(t, u)*maxSteps+max(t, u)] / smoothing
		}
		a[t][n] = d.use[t] - float64(d.p.Devices)
		// Where no job is indifferent the spread is 0: then the step is bounded as if
		// demand fell like one over the price.
		a[t][t] += 0.02*float64(d.p.Devices)/max(lambda[t], smoothing) + 1e-12
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
