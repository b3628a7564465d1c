package goodput

import "math"

// Gain is how many steps at the smallest batch one step at another is worth, by the
// gradient noise scale φ in samples (McCandlish et al., arXiv 1812.06162; Pollux, Qiao et
// al., OSDI 2021, section 3.1):
//
//	gain(b) = (φ/b₀ + 1) / (φ/b + 1)
//
// Between 1, where there is no noise that more samples could average out, and b/b₀, where
// there is nothing else. Where the noise is unknown (0) it is 1 at b₀, and no other
// batch can be judged: 0.
func Gain(noise float64, smallest, batch int) float64 {
	switch {
	case batch == smallest:
		return 1
	case smallest < 1 || batch < 1 || !(noise > 0) || math.IsInf(noise, 1):
		return 0
	}
	return (noise/float64(smallest) + 1) / (noise/float64(batch) + 1)
}
