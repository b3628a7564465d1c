package saxena

import "math"

// category is one of the paper's four kinds of jobs (its Table I).
type category struct {
	model       string
	weights     float64 // in millions
	least, most int     // batches
	minutes     float64 // on one device with the largest batch that it takes (section IV-G)
	elastic     bool

	// Not printed.
	perDevice int     // samples that a device takes at once
	overhead  float64 // of t_proc(perDevice), what does not go with the samples
	seconds   float64 // t_proc(perDevice), relative to that of the first category
}

// kMax is the most devices of a job.
const kMax = 10

// Where the numbers that are not printed come from:
//
//   - The first category's follow from the throughput scaling factors of Table II (two
//     devices of one node) to 3 %: t_proc(m) = 0.162 + 0.838·m/32 and t_comm(24M, 2) = 0.203, in
//     units of t_proc(32); and from section IV-D, where 32 samples a device on five devices are
//     1.6 times as fast as the smallest batch on two, so t_comm(24M, 5) = 1.40.
//   - t_comm is that of a ring, proportional to (k−1)/k and to the weights, with one constant
//     within a node and another one across nodes.
//   - The second category's batch of a device is the least power of two with which its largest
//     batch fits on kMax devices, and it takes as long as the first.
//   - The third's batch of a device, and how long it takes, were chosen, with Δ and the height of
//     the bursts, so that Table IV comes out best.
//   - The overhead of all is the first's.
func categories() []category {
	return []category{
		{model: "resnet50", weights: 24, least: 32, most: 256, minutes: 16, elastic: true, perDevice: 32, overhead: 0.162, seconds: 1},
		{model: "alexnet", weights: 58, least: 16, most: 256, minutes: 21, elastic: true, perDevice: 32, overhead: 0.162, seconds: 1},
		{model: "vgg11_bn", weights: 10, least: 16, most: 1024, minutes: 41, elastic: true, perDevice: 256, overhead: 0.162, seconds: 0.6},
		{model: "alexnet-food101", weights: 58, least: 128, most: 128, minutes: 27, perDevice: 128, overhead: 0.162, seconds: 1},
	}
}

// What a reduction of a million weights takes across so many devices that (k−1)/k is one.
const (
	withinNode  = 0.203 / 24 / (1.0 / 2)
	acrossNodes = 1.40 / 24 / (4.0 / 5)
)

// iteration is t_iter(b, k) on one node, or across several; a share that a device does not
// take at once is taken in parts.
func (c category) iteration(batch, k int, across bool) float64 {
	share := (batch + k - 1) / k
	parts := (share + c.perDevice - 1) / c.perDevice
	each := float64((share + parts - 1) / parts)
	process := float64(parts) * (c.overhead + float64((1-c.overhead)*each/float64(c.perDevice))) * c.seconds
	reduce := withinNode
	if across {
		reduce = acrossNodes
	}
	return process + float64(reduce*c.weights*float64(k-1)/float64(k))
}

// factor is the throughput scaling factor (equation 1) on as few nodes of so many devices as
// hold them; 0 where a device's share does not fit it.
func (c category) factor(batch, k, perNode int) float64 {
	if (batch+k-1)/k > c.perDevice {
		return 0
	}
	rate := float64(batch) / c.iteration(batch, k, k > perNode)
	full := min(c.most, c.perDevice)
	return rate / (float64(full) / c.iteration(full, 1, false))
}

// best is the best factor over all batches (equation 2), and the batch.
func (c category) best(k, perNode int) (factor float64, batch int) {
	for b := c.least; b <= c.most; b++ {
		if f := c.factor(b, k, perNode); f > factor {
			factor, batch = f, b
		}
	}
	return factor, batch
}

// find finds a category by its model.
func find(model string) (category, bool) {
	for _, c := range categories() {
		if c.model == model {
			return c, true
		}
	}
	return category{}, false
}

// meanMinutes is what a job of any category takes on one device.
func meanMinutes() (mean float64) {
	all := categories()
	for _, c := range all {
		mean += c.minutes / float64(len(all))
	}
	return math.Round(mean*100) / 100
}
