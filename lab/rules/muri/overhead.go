package muri

import (
	"time"

	"github.com/bellows-ml/bellows/lab/trace"
)

// Overhead is what a start costs in Muri's simulator, by model and number
// of devices: the constants of its run_sim.py.
func Overhead() trace.Overhead {
	o := trace.Overhead{}
	for _, m := range []struct {
		model   string
		seconds [6]int // on 1, 2, 4, 8, 16, 32 devices
	}{
		{"vgg16", [6]int{7, 7, 8, 9, 9, 10}},
		{"vgg19", [6]int{7, 7, 8, 9, 10, 10}},
		{"resnet18", [6]int{4, 5, 5, 7, 7, 7}},
		{"shufflenet_v2_x1_0", [6]int{4, 4, 5, 5, 7, 8}},
		{"bert", [6]int{10, 10, 10, 10, 10, 10}},
		{"gpt2", [6]int{10, 10, 10, 10, 10, 10}},
		{"a2c", [6]int{38, 39, 39, 46, 46, 46}},
		{"dqn", [6]int{5, 5, 6, 6, 8, 8}},
	} {
		for i, s := range m.seconds {
			o[trace.OverheadKey{Workers: 1 << i, Model: m.model}] = time.Duration(s) * time.Second
		}
	}
	return o
}
