package jobspec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/units"
	"github.com/bellows-ml/bellows/internal/yamltext"
)

// kind is how the values of a field are written.
type kind struct {
	// flag declares the flag and returns what takes its value, which reports whether that was zero.
	flag func(f *flags.Set, name, usage string) take
	// file takes the value from a job file.
	file func(d *draft, v yamltext.Value) error
}

// take puts a flag's value into a draft.
type take func(d *draft) (zero bool, err error)

// text is a field that is a text.
func text(at func(*draft) *string) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.String(name, "", usage)
			return func(d *draft) (bool, error) { *at(d) = *value; return false, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			if v.Kind != yamltext.Text {
				return errors.New("use a text")
			}
			*at(d) = v.Text
			return nil
		},
	}
}

// jobName is a text that may not be given as nothing.
func jobName() kind {
	k := text(func(d *draft) *string { return &d.spec.Name })
	return kind{
		file: k.file,
		flag: func(f *flags.Set, name, usage string) take {
			took := k.flag(f, name, usage)
			return func(d *draft) (bool, error) {
				if _, err := took(d); err != nil || d.spec.Name != "" {
					return false, err
				}
				return false, fmt.Errorf("is empty: use 1 to %d letters, digits, '.', '_' or '-'", cluster.MaxNameBytes)
			}
		},
	}
}

// read is a field whose text set reads. An empty flag means that the field is not given.
func read(preset string, set func(*draft, string) error) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.String(name, preset, usage)
			return func(d *draft) (bool, error) {
				if *value == "" && preset == "" {
					return false, nil
				}
				return false, set(d, *value)
			}
		},
		file: func(d *draft, v yamltext.Value) error { return set(d, v.Text) },
	}
}

// whole is a field that is a whole number. A file is held to the least here, a flag by the spec's validation.
func whole[T int | int64](least int64, preset T, at func(*draft) *T) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			var value T
			switch to := any(&value).(type) {
			case *int:
				f.IntVar(to, name, int(preset), usage)
			case *int64:
				f.Int64Var(to, name, int64(preset), usage)
			}
			return func(d *draft) (bool, error) { *at(d) = value; return value == 0, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			n, err := wholeNumber(v, least)
			*at(d) = T(n)
			return err
		},
	}
}

func wholeNumber(v yamltext.Value, least int64) (int64, error) {
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if v.Kind != yamltext.Text || v.Quoted || err != nil || n < least {
		return 0, fmt.Errorf("%.40q: use a whole number from %d", v.Text, least)
	}
	return n, nil
}

// wholes is a field that is a list of whole numbers from 1.
func wholes(at func(*draft) *[]int) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.IntSlice(name, nil, usage)
			return func(d *draft) (bool, error) { *at(d) = *value; return false, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			if len(v.Items()) == 0 {
				return errors.New("use a list of whole numbers, as in: [3, 6, 12]")
			}
			for i, item := range v.Items() {
				n, err := wholeNumber(item, 1)
				if err != nil {
					return fmt.Errorf("item %d: %w", i+1, err)
				}
				*at(d) = append(*at(d), int(n))
			}
			return nil
		},
	}
}

// duration is a field that is a time above zero.
func duration(preset cluster.Duration, at func(*draft) *cluster.Duration) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.Duration(name, time.Duration(preset), usage)
			return func(d *draft) (bool, error) { *at(d) = cluster.Duration(*value); return *value == 0, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			value, err := time.ParseDuration(v.Text)
			if v.Kind != yamltext.Text || err != nil || value <= 0 {
				return fmt.Errorf("%.40q: use a time above zero, as in 90s, 15m or 1h30m", v.Text)
			}
			*at(d) = cluster.Duration(value)
			return nil
		},
	}
}

// size is a field that is a number of bytes.
func size(at func(*draft) *uint64) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			var value units.Bytes
			f.Var(&value, name, usage)
			return func(d *draft) (bool, error) { *at(d) = uint64(value); return false, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			value, err := units.ParseBytes(v.Text)
			*at(d) = uint64(value)
			return err
		},
	}
}

// processors is a field that is a number of processors.
func processors(at func(*draft) *float64) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.Float64(name, 0, usage)
			return func(d *draft) (bool, error) { *at(d) = *value; return *value == 0, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			value, err := strconv.ParseFloat(v.Text, 64)
			if v.Kind != yamltext.Text || v.Quoted || err != nil || !(value > 0) {
				return fmt.Errorf("%.40q: use a number of processors, as in 4 or 0.5", v.Text)
			}
			*at(d) = value
			return nil
		},
	}
}

// truth is a field that is true or false.
func truth(at func(*draft) *bool) kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.Bool(name, false, usage)
			return func(d *draft) (bool, error) { *at(d) = *value; return false, nil }
		},
		file: func(d *draft, v yamltext.Value) (err error) { *at(d), err = v.Bool(); return err },
	}
}

// names is a field that is a list of nodes; in a file also a single one.
func names[S ~string](at func(*draft) *[]S) kind {
	set := func(d *draft, names []string) {
		for _, n := range names {
			*at(d) = append(*at(d), S(n))
		}
	}
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.StringSlice(name, nil, usage)
			return func(d *draft) (bool, error) { set(d, *value); return false, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			if v.Kind == yamltext.Text || v.Kind == yamltext.Null {
				set(d, []string{v.Text})
				return nil
			}
			names, err := v.Texts()
			set(d, names)
			return err
		},
	}
}

// environment is the variables that are set for the workers.
func environment() kind {
	return kind{
		flag: func(f *flags.Set, name, usage string) take {
			value := f.StringArray(name, nil, usage)
			return func(d *draft) (bool, error) { d.env = *value; return false, nil }
		},
		file: func(d *draft, v yamltext.Value) error {
			if v.Kind != yamltext.Map {
				return errors.New("write names and values below it, as in: OMP_NUM_THREADS: \"4\"")
			}
			var bad []error
			seen := map[string]bool{}
			for _, e := range v.Entries() {
				if seen[e.Key] {
					bad = append(bad, lineFault{e.Line, fmt.Sprintf("env: %s is given twice", e.Key)})
				}
				if e.Value.Kind != yamltext.Text && e.Value.Kind != yamltext.Null {
					bad = append(bad, lineFault{e.Value.Line, fmt.Sprintf("env: %s: use a text", e.Key)})
				}
				seen[e.Key] = true
				d.env = append(d.env, e.Key+"="+e.Value.Text)
			}
			return errors.Join(bad...)
		},
	}
}

// command is the program with its arguments: of a command line what follows the flags.
func command() kind {
	return kind{file: func(d *draft, v yamltext.Value) (err error) {
		d.spec.Command, err = v.Texts()
		return err
	}}
}

// batchSize reads 256 or 256:1024.
func batchSize(text string) (cluster.BatchSize, error) {
	low, high, both := strings.Cut(text, ":")
	smallest, err := strconv.Atoi(low)
	largest := smallest
	if err == nil && both {
		largest, err = strconv.Atoi(high)
	}
	if err != nil || smallest < 1 || largest < 1 {
		return cluster.BatchSize{}, fmt.Errorf("%q: use a number of samples from 1, as in 256, or smallest:largest, as in 256:1024", text)
	}
	return cluster.BatchSize{Min: smallest, Max: largest}, nil
}

// What process can be.
const (
	perDevice  = "per-device"
	onePerNode = "per-node"
)

func perNode(text string) (bool, error) {
	if text != perDevice && text != onePerNode {
		return false, fmt.Errorf("%q: use %s or %s", text, perDevice, onePerNode)
	}
	return text == onePerNode, nil
}

func deadline(d *draft, text string) (err error) {
	d.spec.Deadline, err = units.Deadline(text, d.now)
	return err
}
