package policy

import (
	"math/rand/v2"
	"testing"
)

// The price is the least at which all choices fit: they do at the price, and no
// longer a little below it. Jobs are drawn with concave curves, where raising the
// price never makes one take more.
func TestPriceForIsTheLeastThatFits(t *testing.T) {
	scarce := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		var jobs []priced
		least, most := 0, 0
		for i := range 1 + r.IntN(20) {
			p, speed, gain := priced{job: i}, 0.0, 1e-6+1000*r.Float64()
			size := 1
			for range 1 + r.IntN(5) {
				speed += gain
				p.options = append(p.options, option{size: size, worth: speed, use: float64(size)})
				gain *= 1.9 * r.Float64() // twice as many devices for less than twice the gain
				size *= 2
			}
			jobs = append(jobs, p)
			least, most = least+1, most+size/2
		}
		taken := func(price float64) (n int) {
			for _, p := range jobs {
				n += p.at(price)
			}
			return n
		}
		devices := least + r.IntN(most-least+2)
		price := priceFor(jobs, devices)
		if n := taken(price); n > devices {
			t.Errorf("seed %d: %d of %d devices are taken at price %v", seed, n, devices, price)
		}
		if price == 0 {
			continue
		}
		scarce++
		if n := taken(price * (1 - 1e-9)); n <= devices {
			t.Errorf("seed %d: %d of %d devices are taken below price %v already", seed, n, devices, price)
		}
	}
	if scarce < 100 {
		t.Errorf("devices were scarce in %d cases only", scarce)
	}
}
