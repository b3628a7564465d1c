package trace

import (
	"io"
	"time"
)

// Overhead is what a start costs a model on a number of workers.
type Overhead map[OverheadKey]time.Duration

// OverheadKey names one entry of an Overhead.
type OverheadKey struct {
	Workers int
	Model   string
}

// ReadOverhead reads start costs: the columns gpus, model and start_overhead_s.
func ReadOverhead(name string, r io.Reader) (Overhead, error) {
	t, err := openTable(name, r)
	if err != nil {
		return nil, err
	}
	if want := []string{"gpus", "model", "start_overhead_s"}; !sameColumns(t.head, want) {
		return nil, &Fault{File: name, Line: 1, Field: "columns", Value: list(t.head), Reason: "not those of start costs", Remedy: "use " + list(want)}
	}
	o := Overhead{}
	for {
		more, err := t.next()
		if err != nil {
			return nil, err
		}
		if !more {
			return o, t.err()
		}
		k := OverheadKey{Workers: t.positive("gpus"), Model: t.must("model")}
		if _, ok := o[k]; ok {
			t.fault("model", "named twice for that many gpus", "keep one of the two")
		}
		if t.must("start_overhead_s") != "" {
			o[k] = t.seconds("start_overhead_s")
		}
	}
}
