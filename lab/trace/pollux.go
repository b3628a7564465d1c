package trace

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// PolluxModels are the measurements behind the Pollux simulator (Qiao et al.,
// OSDI 2021), by model: how long a step takes on each placement and how much
// training it is worth at each batch size. They are spread over four files, of
// which the first, ReadPolluxModels', names the models.
type PolluxModels map[string]*PolluxModel

// PolluxModel is one model. Batches are numbers of samples.
type PolluxModel struct {
	InitBatch, MaxBatch int // of the whole world
	MinLocal, MaxLocal  int // of one worker at a time
	Epochs              int // to the end of its training
	// Runs are the trainings that were measured, by their batch, ascending; each has Epochs of them.
	Runs []PolluxRun
	// Placements are measured step times by placement, by local batch, ascending. A
	// placement is written as its nodes' numbers of workers: 42 = four and two.
	Placements map[int][]PolluxPoint
	// Wide are measured step times on more nodes.
	Wide []PolluxPoint
}

// PolluxRun is one training at a fixed batch.
type PolluxRun struct {
	Batch  int
	Epochs []PolluxEpoch
}

// PolluxEpoch is what is known at the end of an epoch: the progress and the
// steps so far, and the squared norm and the variance of the gradient.
type PolluxEpoch struct{ Progress, Iteration, GradSqr, GradVar float64 }

// PolluxPoint is a measured step: Step seconds, of which Sync for communication.
type PolluxPoint struct {
	Nodes, Workers, Local int
	Step, Sync            float64
}

// rows reads a table with exactly the columns named, line by line.
func rows(name string, r io.Reader, columns []string, row func(t *table)) error {
	t, err := openTable(name, r)
	if err != nil {
		return err
	}
	if !sameColumns(t.head, columns) {
		return &Fault{File: name, Line: 1, Field: "columns", Value: list(t.head), Reason: "not those of this table", Remedy: "use " + list(columns)}
	}
	for {
		more, err := t.next()
		if err != nil {
			return err
		}
		if !more {
			return t.err()
		}
		row(t)
	}
}

// ReadPolluxModels reads the models and their bounds (pollux_app_params.csv).
func ReadPolluxModels(name string, r io.Reader) (PolluxModels, error) {
	m := PolluxModels{}
	columns := []string{"model", "init_batch_size", "max_batch_size", "min_local_bsz", "max_local_bsz", "max_epochs", "target_metric"}
	err := rows(name, r, columns, func(t *table) {
		model := t.must("model")
		if m[model] != nil {
			t.fault("model", "named twice", "keep one of the two")
		}
		m[model] = &PolluxModel{
			InitBatch: t.positive("init_batch_size"), MaxBatch: t.positive("max_batch_size"),
			MinLocal: t.positive("min_local_bsz"), MaxLocal: t.positive("max_local_bsz"),
			Epochs: t.positive("max_epochs"), Placements: map[int][]PolluxPoint{},
		}
		if t.text("target_metric") != "" {
			t.fault("target_metric", "not empty", "leave it out: training here ends after max_epochs")
		}
	})
	return m, err
}

// of finds the model of a row; nil, with a fault, if it is not known.
func (m PolluxModels) of(t *table) *PolluxModel {
	x := m[t.must("model")]
	if x == nil {
		t.fault("model", "not among the models", "add its bounds to the table of models")
	}
	return x
}

// ReadRuns adds the trainings that were measured (pollux_statistical_efficiency.csv).
func (m PolluxModels) ReadRuns(name string, r io.Reader) error {
	columns := []string{"model", "global_batch", "progress", "iteration", "metric", "grad_sqr", "grad_var"}
	err := rows(name, r, columns, func(t *table) {
		x, batch := m.of(t), t.positive("global_batch")
		if x == nil {
			return
		}
		i, found := slices.BinarySearchFunc(x.Runs, batch, func(p PolluxRun, b int) int { return cmp.Compare(p.Batch, b) })
		if !found {
			x.Runs = slices.Insert(x.Runs, i, PolluxRun{Batch: batch})
		}
		e := PolluxEpoch{t.rate("progress"), t.rate("iteration"), t.number("grad_sqr"), t.number("grad_var")}
		if done := x.Runs[i].Epochs; len(done) > 0 && e.Progress <= done[len(done)-1].Progress {
			t.fault("progress", "not more than in the epoch before", "give the epochs of one training in their order")
		}
		x.Runs[i].Epochs = append(x.Runs[i].Epochs, e)
	})
	if err != nil {
		return err
	}
	for _, model := range sortedKeys(m) {
		x := m[model]
		for _, run := range x.Runs {
			if len(run.Epochs) < x.Epochs {
				return fmt.Errorf("%s: model %.40q batch %d: %d epochs of %d: is the file cut off?", name, model, run.Batch, len(run.Epochs), x.Epochs)
			}
		}
		if len(x.Runs) == 0 || x.Runs[0].Batch > x.InitBatch || x.Runs[len(x.Runs)-1].Batch < x.MaxBatch {
			return fmt.Errorf("%s: model %.40q: no training at its batches %d to %d: is the file cut off?", name, model, x.InitBatch, x.MaxBatch)
		}
	}
	return nil
}

// ReadPlacements adds the step times on up to four nodes (pollux_t4_placements.csv).
func (m PolluxModels) ReadPlacements(name string, r io.Reader) error {
	err := rows(name, r, []string{"model", "gpu_type", "placement", "local_bsz", "step_time", "sync_time"}, func(t *table) {
		x, placement := m.of(t), t.positive("placement")
		p := t.point()
		for d := placement; d > 0; d /= 10 {
			p.Nodes++
			p.Workers += d % 10
		}
		if x == nil {
			return
		}
		if before := x.Placements[placement]; len(before) > 0 && before[len(before)-1].Local >= p.Local {
			t.fault("local_bsz", "not more than in the line before", "give each placement's local batches in ascending order")
		}
		x.Placements[placement] = append(x.Placements[placement], p)
	})
	if err != nil {
		return err
	}
	for _, model := range sortedKeys(m) {
		if len(m[model].Placements[1]) == 0 {
			return fmt.Errorf("%s: model %.40q: no step time on one device: is the file cut off?", name, model)
		}
	}
	return nil
}

// ReadWide adds the step times on more nodes (pollux_t4_scalability.csv).
func (m PolluxModels) ReadWide(name string, r io.Reader) error {
	return rows(name, r, []string{"model", "gpu_type", "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"}, func(t *table) {
		p := t.point()
		p.Nodes, p.Workers = t.positive("num_nodes"), t.positive("num_replicas")
		if x := m.of(t); x != nil {
			x.Wide = append(x.Wide, p)
		}
	})
}

// point reads the columns that both tables of step times have.
func (t *table) point() PolluxPoint {
	p := PolluxPoint{Local: t.positive("local_bsz"), Step: t.rate("step_time"), Sync: t.number("sync_time")}
	if p.Sync > p.Step {
		t.fault("sync_time", fmt.Sprintf("more than step_time %v", p.Step), "write the part of the step that is communication")
		p.Sync = math.Min(p.Sync, p.Step)
	}
	return p
}

func sortedKeys(m PolluxModels) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
