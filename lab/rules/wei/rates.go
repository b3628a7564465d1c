package wei

import (
	"math"

	"github.com/bellows-ml/bellows/allocator/goodput"
)

// rates are how far a task comes in a second on so many processes, relative to four.
type rates func(processes int) float64

// stages are the rates of a task that is young, and from aged of its work on.
type stages struct{ young, old rates }

// aged is the part of the work after which a task is old: the older one has come so far when
// the younger one begins (200 of 300 s, section 4).
const aged = 200.0 / 300

// Implied by the times that the paper prints (section 6, Table 2), with 300 s of work on four
// processes and 200 s between the tasks. With two processes each, the older ends at
// 200 + 100/old(2); with three and one at 200 + 100/old(3); the younger follows:
//
//	512 a task       all end after 567.5 and 540.81 s, the older 12.76 % sooner
//	128 a process    the older ends 100.82 s sooner, which is 23.01 %; all 2.72 %, the younger 4.03 %
//
// So these numbers are the published ones in another form. Of 128 a process nothing tells what
// an old task does on one process or a young one on three: these are the means of their neighbours.
var (
	impliedTask     = table(0.6616, 0.5970, 0.8291)
	impliedYoung128 = table(0.2826, 0.5160, 0.7580)
	impliedOld128   = table(0.2099, 0.4199, 0.7281)
)

// table are the rates on one, two and three processes; beyond four they grow as speeds of
// which nothing is known.
func table(below ...float64) rates {
	return func(k int) float64 {
		if k <= len(below) {
			return below[k-1]
		}
		return power(k)
	}
}

// power are speeds that grow by the power that production assumes where nothing was measured.
func power(k int) float64 { return goodput.Default(k) / goodput.Default(4) }

// youngNoise is the gradient noise scale of a young task, in samples; chosen: a young task
// then learns from a step of 512 samples 2.5 times what it does from one of 128, and an old
// one four times.
const youngNoise = 512

// young128 are those of a young task with 128 samples a process: steps of fewer
// samples take as much less time as power says, and lose less of their worth.
func young128(k int) float64 {
	const all = 4.0 * perProcess
	b := float64(k * perProcess)
	return power(k) * (all / b) * (youngNoise/all + 1) / (youngNoise/b + 1)
}

// perProcess is the batch of a process where that is fixed.
const perProcess = 128

// The loss of a task: it begins as that of ten classes of which nothing is known, and falls by e^-3
// of its fall over the work. The paper's figures are not public; chosen.
var (
	lossFirst = math.Log(10)
	lossLeast = 0.05
)

const (
	lossDecay = 3.0
	// iterations are those of a task in all: ten a second on four processes; chosen.
	iterations = 3000
)

// told is what the ranks of a task have told when a part of its work is done: the
// sum is the integral of the curve.
func told(done float64) goodput.Told {
	n := math.Floor(done * iterations)
	x := n / iterations
	// The conversions keep compilers from fusing two operations on some machines only.
	area := float64(lossLeast*x) + float64((lossFirst-lossLeast)*(1-math.Exp(-lossDecay*x))/lossDecay)
	return goodput.Told{Step: int64(n), Sum: area * iterations, Told: int64(n)}
}
