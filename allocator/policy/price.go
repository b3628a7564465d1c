package policy

import "math"

// option is one size of a job, what it is worth, and the device time that it takes.
type option struct {
	size       int
	worth, use float64
	present    bool // wins a tie
}

// priced is a job that buys device time: it takes the option that is worth most
// after payment. Its options are never empty.
type priced struct {
	job     int
	options []option
}

// at is the size that the job takes at a price.
func (p priced) at(price float64) int {
	best, net := p.options[0], math.Inf(-1)
	for _, o := range p.options {
		if n := o.worth - float64(price*o.use); n > net || n == net && o.present {
			best, net = o, n
		}
	}
	return best.size
}

// priceSteps halve the ratio between a price that is too low and one that is not
// until it is 1 to the last bits.
const priceSteps = 60

// priceFor is a price at which all jobs together take no more than the devices, the
// least to within rounding where raising it never makes one take more: the
// multiplier of the capacity in the problem's Lagrangian. Where not even the
// highest is enough, it is that.
func priceFor(jobs []priced, devices int) float64 {
	fits := func(price float64) bool {
		n := 0
		for _, p := range jobs {
			n += p.at(price)
		}
		return n <= devices
	}
	if fits(0) {
		return 0
	}
	high := 0.0 // at the highest worth of a device second none is worth buying
	for _, p := range jobs {
		for _, o := range p.options {
			if o.use > 0 {
				high = max(high, o.worth/o.use)
			}
		}
	}
	low := high * 0x1p-60
	high *= 0x1p20
	for range priceSteps {
		mid := math.Sqrt(low) * math.Sqrt(high)
		if fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
