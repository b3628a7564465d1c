package settings

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// roles are the daemons that take settings from a file.
var roles = []string{"agent", "coordinator"}

// newSet makes the flags of a role that are about its file of settings, and that every command has.
func newSet(role string) *flags.Set {
	f := flags.New(role)
	DeclareFile(role, f)
	if role == "agent" {
		DeclareSocket(f)
	}
	return f
}

// LongestTime is what a flag takes at most that is a time.
func LongestTime(flag string) time.Duration {
	switch flag {
	case "eta":
		return time.Duration(cluster.MaxETA)
	case "grace":
		return time.Duration(cluster.MaxGrace)
	case "halt-timeout", "interval":
		return time.Duration(cluster.MaxHaltTimeout)
	}
	return time.Duration(cluster.MaxTime)
}

// declare makes the flags of a role, and the check of what they say together.
func declare(role string) (set *flags.Set, check func() error, err error) {
	f := newSet(role)
	switch role {
	case "agent":
		a := NewAgent(f)
		flags.BoundDurations(f, LongestTime)
		return f, func() error { _, err := a.config(zerolog.Nop()); return err }, nil
	case "coordinator":
		c := NewCoordinator(f)
		flags.BoundDurations(f, LongestTime)
		return f, func() error { _, err := c.config(zerolog.Nop()); return err }, nil
	}
	return nil, nil, fault.Usage("--role %q: use agent or coordinator", role)
}

// Check returns everything that is wrong with a file of settings of a role, and how many
// settings it has, of how many. Neither flags nor the environment count.
func Check(role, name string) (set, all int, err error) {
	flags, check, err := declare(role)
	if err != nil {
		return 0, 0, err
	}
	file, err := readConfig(name)
	if err != nil {
		return 0, 0, err
	}
	s := newSettings(role, flags)
	var bad, more fault.List
	bad.Add(s.fill(nil, file))
	more.Add(check()) // what could not be read is at its default
	for _, err := range more {
		bad.Add(s.inFile(file, err))
	}
	return len(s.origins), len(s.names()), bad.Err()
}

// inFile says where in a file stands what a daemon finds wrong with a flag.
func (s *settings) inFile(file configFile, err error) error {
	word, _, _ := strings.Cut(err.Error(), " ")
	name := strings.Trim(word, "-:")
	where, fromFile := strings.CutPrefix(s.origins[name], file.name+":")
	if !fromFile {
		return fmt.Errorf("%s: %w", file.name, err)
	}
	text := strings.TrimPrefix(err.Error(), "--")
	if fault.IsUsage(err) {
		return fault.Usage("%s:%s: %s", file.name, where, text)
	}
	return fmt.Errorf("%s:%s: %s", file.name, where, text)
}

// Setting is one line of `config show`. Its JSON names are a contract.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Effective returns what each setting of a role would be if its daemon were started here with a
// file of settings; with an empty name, its usual one.
func Effective(role, file string) ([]Setting, error) {
	flags, _, err := declare(role)
	if err != nil {
		return nil, err
	}
	if err = flags.Lookup(ConfigFlag).Value.Set(file); err != nil {
		return nil, fmt.Errorf("--%s: %w", ConfigFlag, err)
	}
	text, err := configOf(role, flags)
	if err != nil {
		return nil, err
	}
	s := newSettings(role, flags)
	if err := s.fill(os.Environ(), text); err != nil {
		return nil, err
	}
	return s.list(), nil
}

func (s *settings) list() []Setting {
	var list []Setting
	s.flags.VisitAll(func(f *flags.Flag) {
		if !isSetting(s.role, f) {
			return
		}
		x := Setting{Key: f.Name, Value: strings.Trim(f.Value.String(), "[]"), Origin: s.origins[f.Name]}
		if x.Origin == "" {
			x.Origin = "default"
		}
		list = append(list, x)
	})
	return list
}
