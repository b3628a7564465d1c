package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/units"
)

// maxJobFile bounds a job file; one beyond it is something else by mistake.
const maxJobFile = 1 << 20

// jobFile reads a spec from YAML, strictly: every fault is found, and said with
// its line. Its keys are the names of the flags of `bellows run`.
type jobFile struct {
	name   string // of the file, for messages
	now    time.Time
	spec   cluster.Spec
	env    []string
	lines  map[string]int // key → its line
	faults []lineFault
}

type lineFault struct {
	line int
	text string
}

// yamlFault is what the reader of YAML finds wrong, with its line as all other faults have it.
func yamlFault(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "cannot start any token") {
		text += ": indent with spaces, not tabs, and put a text that begins with @, % or ` into quotes"
	}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		return fmt.Errorf("%s:%s", name, rest)
	}
	return fmt.Errorf("%s: %s", name, text)
}

func readJobFile(r io.Reader, name string, now time.Time) (*jobFile, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxJobFile+1))
	if err != nil {
		return nil, fault.Usage("read %s: %w", name, fault.Reason(err))
	}
	if len(text) > maxJobFile {
		return nil, fault.Usage("%s: a job file has at most %d bytes", name, maxJobFile)
	}
	f := &jobFile{name: name, now: now, lines: map[string]int{}, spec: cluster.Spec{MaxRestarts: cluster.DefaultMaxRestarts}}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, fault.Usage("%s: it is empty; give at least the command, as in: command: [python, train.py]", name)
	case err != nil:
		return nil, fault.Usage("%w", yamlFault(name, err))
	}
	if d.Decode(new(yaml.Node)) == nil {
		return nil, fault.Usage("%s: it holds more than one document; submit each job from its own", name)
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, fault.Usage("%s:%d: write keys and values, as in: command: [python, train.py]", name, doc.Content[0].Line)
	}
	f.document(doc.Content[0])
	return f, f.err()
}

func (f *jobFile) fault(line int, format string, args ...any) {
	f.faults = append(f.faults, lineFault{line, fmt.Sprintf(format, args...)})
}

// err joins the faults in the order of their lines.
func (f *jobFile) err() error {
	slices.SortStableFunc(f.faults, func(a, b lineFault) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, x := range f.faults {
		if x.line == 0 {
			all = append(all, fmt.Errorf("%s: %s", f.name, x.text))
			continue
		}
		all = append(all, fmt.Errorf("%s:%d: %s", f.name, x.line, x.text))
	}
	if len(all) == 0 {
		return nil
	}
	return fault.AsUsage(errors.Join(all...))
}

// take adds faults that were found elsewhere, each at the line of its key.
func (f *jobFile) take(err error) error {
	for _, e := range fault.Each(err) {
		text := e.Error()
		where, _ := fieldOf(text)
		f.fault(f.lines[where.key], "%s", inWords(text, func(x field) string { return x.key }))
	}
	return f.err()
}

func (f *jobFile) document(n *yaml.Node) {
	known := f.setters()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		first, repeated := f.lines[key.Value]
		set := known[key.Value]
		switch {
		case repeated:
			f.fault(key.Line, "%s is given twice, first in line %d", key.Value, first)
			continue
		case set == nil:
			f.fault(key.Line, "unknown key %.40q: use %s", key.Value, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		f.lines[key.Value] = key.Line
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if err := set(value); err != nil {
			f.fault(value.Line, "%s: %s", key.Value, err)
		}
	}
	if f.lines["steps"] != 0 && f.lines["eta"] != 0 {
		f.fault(f.lines["eta"], "eta: steps says already how much work there is; give one of them")
	}
}

func (f *jobFile) setters() map[string]func(*yaml.Node) error {
	return map[string]func(*yaml.Node) error{
		"name":           func(n *yaml.Node) error { return text(n, &f.spec.Name) },
		"command":        func(n *yaml.Node) error { return texts(n, &f.spec.Command) },
		"workdir":        func(n *yaml.Node) error { return text(n, &f.spec.Workdir) },
		"checkpoint-dir": func(n *yaml.Node) error { return text(n, &f.spec.CheckpointDir) },
		"env":            f.setEnv,
		"node":           func(n *yaml.Node) error { return nodeNames(n, &f.spec.Where.Nodes) },
		"exclude-node":   func(n *yaml.Node) error { return nodeNames(n, &f.spec.Where.Not) },
		"device-model":   func(n *yaml.Node) error { return text(n, &f.spec.Where.DeviceModel) },
		"device-memory": func(n *yaml.Node) error {
			bytes, err := units.ParseBytes(n.Value)
			f.spec.Where.DeviceMemoryBytes = uint64(bytes)
			return err
		},
		"memory-per-worker": func(n *yaml.Node) error {
			bytes, err := units.ParseBytes(n.Value)
			f.spec.PerWorker.MemoryBytes = uint64(bytes)
			return err
		},
		"cpus-per-worker": func(n *yaml.Node) error { return processors(n, &f.spec.PerWorker.CPUs) },
		"no-new-privs": func(n *yaml.Node) error {
			if n.Decode(&f.spec.NoNewPrivs) != nil {
				return fmt.Errorf("%.40q: use true or false", n.Value)
			}
			return nil
		},
		"env-file":     func(n *yaml.Node) error { return text(n, &f.spec.EnvFile) },
		"min":          func(n *yaml.Node) error { return number(n, &f.spec.MinWorkers, 1) },
		"max":          func(n *yaml.Node) error { return number(n, &f.spec.MaxWorkers, 1) },
		"world-sizes":  func(n *yaml.Node) error { return numbers(n, &f.spec.Sizes) },
		"priority":     func(n *yaml.Node) error { return number(n, &f.spec.Priority, -cluster.MaxPriority) },
		"max-restarts": func(n *yaml.Node) error { return number(n, &f.spec.MaxRestarts, 0) },
		"steps":        func(n *yaml.Node) error { return number(n, &f.spec.Steps, 1) },
		"eta":          func(n *yaml.Node) error { return positive(n, &f.spec.ETA) },
		"time-limit":   func(n *yaml.Node) error { return positive(n, &f.spec.TimeLimit) },
		"halt-timeout": func(n *yaml.Node) error { return positive(n, &f.spec.HaltTimeout) },
		"process": func(n *yaml.Node) (err error) {
			f.spec.PerNode, err = perNode(n.Value)
			return err
		},
		"batch-size": func(n *yaml.Node) (err error) {
			f.spec.BatchSize, err = batchSize(n.Value)
			return err
		},
		"deadline": func(n *yaml.Node) (err error) {
			f.spec.Deadline, err = units.Deadline(n.Value, f.now)
			return err
		},
	}
}

func (f *jobFile) setEnv(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return errors.New("write names and values below it, as in: OMP_NUM_THREADS: \"4\"")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			f.fault(key.Line, "env: %s is given twice", key.Value)
		}
		if value.Kind != yaml.ScalarNode {
			f.fault(value.Line, "env: %s: use a text", key.Value)
		}
		seen[key.Value] = true
		f.env = append(f.env, key.Value+"="+value.Value)
	}
	return nil
}

func text(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return errors.New("use a text")
	}
	*to = n.Value
	return nil
}

func texts(n *yaml.Node, to *[]string) error {
	if n.Kind != yaml.SequenceNode {
		return errors.New("use a list of texts, as in: [python, train.py, --lr, \"0.1\"]")
	}
	for _, item := range n.Content {
		var s string
		if err := text(item, &s); err != nil {
			return fmt.Errorf("item %d: %w", len(*to)+1, err)
		}
		*to = append(*to, s)
	}
	return nil
}

// nodeNames reads one name or a list of them.
func nodeNames(n *yaml.Node, to *[]cluster.NodeID) error {
	names := []string{n.Value}
	if n.Kind != yaml.ScalarNode {
		names = nil
		if err := texts(n, &names); err != nil {
			return err
		}
	}
	*to = nodeIDs(names)
	return nil
}

func numbers(n *yaml.Node, to *[]int) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return errors.New("use a list of whole numbers, as in: [3, 6, 12]")
	}
	for i, item := range n.Content {
		var v int
		if err := number(item, &v, 1); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
		*to = append(*to, v)
	}
	return nil
}

func number[T int | int64](n *yaml.Node, to *T, least int64) error {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" || err != nil || v < least || v > math.MaxInt32 && least != 1 {
		return fmt.Errorf("%.40q: use a whole number from %d", n.Value, least)
	}
	*to = T(v)
	return nil
}

func positive(n *yaml.Node, to *cluster.Duration) error {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d <= 0 {
		return fmt.Errorf("%.40q: use a time above zero, as in 90s, 15m or 1h30m", n.Value)
	}
	*to = cluster.Duration(d)
	return nil
}

func processors(n *yaml.Node, to *float64) error {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" || err != nil || !(v > 0) {
		return fmt.Errorf("%.40q: use a number of processors, as in 4 or 0.5", n.Value)
	}
	*to = v
	return nil
}
