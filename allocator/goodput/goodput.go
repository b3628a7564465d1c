package goodput

import "math"

// Default is the speed of k workers relative to one in the default model,
// k·0.8^log2(k): each doubling keeps 80 % of what it could gain (Hu et al.,
// section 4.2 and Figure 6). It is 0 for k ≤ 0, where the formula has no value.
func Default(k int) float64 {
	if k <= 0 {
		return 0
	}
	if k&(k-1) == 0 { // exactly a power of two: multiply, so that every machine gets the same bits
		speed := 1.0
		for ; k > 1; k /= 2 {
			speed *= 2 * 0.8
		}
		return speed
	}
	return math.Pow(float64(k), 1+math.Log2(0.8))
}
