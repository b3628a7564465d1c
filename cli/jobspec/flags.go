package jobspec

import (
	"errors"
	"fmt"
	"os"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// Flags are the fields of a spec as flags of a command.
type Flags struct {
	set  *flags.Set
	take map[string]take // by key
}

// NewFlags declares the flags in a set.
func NewFlags(set *flags.Set) *Flags {
	f := &Flags{set: set, take: map[string]take{}}
	for _, x := range fields {
		if x.kind.flag != nil {
			f.take[x.key] = x.kind.flag(set, x.key, x.usage)
		}
	}
	return f
}

// Spec returns the spec of a job that runs a command, as the flags say. All faults come at once.
func (f *Flags) Spec(command []string, use Use) (cluster.Spec, error) {
	var bad []error
	d := newDraft()
	for _, x := range fields {
		if f.take[x.key] == nil || !f.set.Changed(x.key) {
			continue
		}
		zero, err := f.take[x.key](d)
		switch {
		case err != nil:
			bad = append(bad, fmt.Errorf("--%s %w", x.key, err))
		case zero && x.zero != "": // left out it would mean the default
			bad = append(bad, fmt.Errorf("--%s %s", x.key, x.zero))
		}
	}
	s := d.spec
	s.Command = command
	var err error
	if s.Env, err = submitterEnvironment(d.env); err != nil {
		bad = append(bad, err)
		s.Env = map[string]string{"PATH": os.Getenv("PATH")} // enough to check the rest
	}
	base, err := os.Getwd()
	if err != nil {
		return s, fmt.Errorf("find this folder: %w: go to one that exists", err)
	}
	if s, err = complete(s, base); err == nil {
		err = prepare(s, len(bad) > 0 || use == DryRun)
	}
	for _, e := range fault.Each(err) {
		bad = append(bad, errors.New(inWords(e.Error(), field.flag)))
	}
	return s, fault.AsUsage(errors.Join(bad...))
}
