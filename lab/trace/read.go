package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// base are the columns that every trace has.
var base = [...]string{"job_id", "submit_s", "gpus", "duration_s", "model", "batch_size", "iterations", "deadline_s", "vc"}

// format is one kind of trace.
type format struct {
	name    string
	columns []string // besides base
	// read takes in the columns besides base. It reports false for a row that is no job of ours.
	read func(*table, *Arrival) bool
}

// formats is the list of what can be read. A format is told by its columns.
func formats() []format {
	return []format{
		{name: "plain", read: func(*table, *Arrival) bool { return true }},
		{name: "muri", columns: []string{"iter_time_ms"}, read: readMuri},
		{name: "shockwave", columns: []string{"batch_adaptation"}, read: readShockwave},
		{name: "chronus", columns: []string{"soft_deadlines_rel_min", "deadline_values", "best_effort", "job_type"}, read: readChronus},
		{name: "pai", columns: []string{"gpu_milli", "cpu_milli", "memory_mib", "qos", "pod_phase", "queue_s"}, read: readPAI},
	}
}

// Formats names the formats and their columns, for help texts.
func Formats() []string {
	var out []string
	for _, f := range formats() {
		out = append(out, f.name+": "+list(append(base[:len(base):len(base)], f.columns...)))
	}
	return out
}

// Read reads a trace; name is for its faults.
func Read(name string, r io.Reader) (File, error) {
	t, err := openTable(name, r)
	if err != nil {
		return File{}, err
	}
	i := slices.IndexFunc(formats(), func(f format) bool { return sameColumns(t.head, append(base[:len(base):len(base)], f.columns...)) })
	if i < 0 {
		return File{}, fmt.Errorf("%s:1: columns %.200q are those of no known trace; use one of these:\n  %s",
			name, list(t.head), strings.Join(Formats(), "\n  "))
	}
	f := formats()[i]
	out := File{Name: name, Format: f.name}
	lines := map[string]int{} // by id
	var last time.Duration
	for {
		more, err := t.next()
		if err != nil {
			return File{}, err
		}
		if !more {
			break
		}
		a := t.arrival()
		if !f.read(t, &a) {
			out.LeftOut++
			continue
		}
		a.Workers = t.positive("gpus")
		t.check(a, lines, last)
		last = max(last, a.Submit)
		out.Arrivals = append(out.Arrivals, a)
	}
	if err := t.err(); err != nil {
		return File{}, err
	}
	if len(out.Arrivals) == 0 {
		return File{}, fmt.Errorf("%s: no job in it: was the file cut off?", name)
	}
	return out, nil
}

// arrival reads the columns that every trace has, but for gpus: some formats have jobs that use none.
func (t *table) arrival() Arrival {
	a := Arrival{
		ID: t.must("job_id"), Line: t.line, Duration: t.seconds("duration_s"),
		Model: t.text("model"), BatchSize: int(t.count("batch_size")), Iterations: t.count("iterations"),
		Deadline: t.seconds("deadline_s"), Group: t.text("vc"),
	}
	if t.must("submit_s") != "" {
		a.Submit = t.seconds("submit_s")
	}
	return a
}

// check looks at a row as a whole, and at its place among the others.
func (t *table) check(a Arrival, lines map[string]int, last time.Duration) {
	if a.Workers > 1<<16 {
		t.fault("gpus", "too many", "write at most 65536")
	}
	if first, ok := lines[a.ID]; ok && a.ID != "" {
		t.fault("job_id", fmt.Sprintf("line %d has it already", first), "give each job its own")
	} else {
		lines[a.ID] = t.line
	}
	switch given := t.text("duration_s"); {
	case given == "" && a.Model == "":
		t.fault("duration_s", "missing, and no model to look up in a profile", "give one of the two")
	case zero(given):
		t.fault("duration_s", "zero", "write how long it ran, or leave the line out")
	}
	if a.Submit < last && !t.has(t.line, "submit_s") {
		t.fault("submit_s", fmt.Sprintf("before the line above it (%v)", last.Seconds()),
			"sort the lines by submit_s: that is the order in which simulations break ties")
	}
	if t.text("deadline_s") != "" && a.Deadline <= a.Submit {
		t.fault("deadline_s", fmt.Sprintf("not after submit_s %s", t.text("submit_s")), "write it on the same clock, or leave the cell empty")
	}
}
