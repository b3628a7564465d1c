// Package flags is what the command line's flags are declared with: the one owner of the
// library for them. The names are the library's own; docs of pflag.FlagSet apply.
package flags

import (
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/pflag"
)

type (
	// Set is the flags of a command.
	Set = pflag.FlagSet
	// Flag is one of them.
	Flag = pflag.Flag
	// List is the value of a flag that takes several.
	List = pflag.SliceValue
)

// New makes an empty set, whose Parse returns errors.
func New(name string) *Set { return pflag.NewFlagSet(name, pflag.ContinueOnError) }

// Unquote returns the word that stands for a flag's value, and its text without the quotes around that.
func Unquote(f *Flag) (value, text string) { return pflag.UnquoteUsage(f) }

// BoundDurations has every flag of a set that is a time refuse one longer than most says for its name,
// also where it comes from a variable or a file of settings. A flag that is bounded already stays as it is.
func BoundDurations(f *Set, most func(name string) time.Duration) {
	f.VisitAll(func(x *Flag) {
		if _, done := x.Value.(duration); !done && x.Value.Type() == "duration" {
			x.Value = duration{x.Value, most(x.Name)}
		}
	})
}

// duration is the value of such a flag.
type duration struct {
	pflag.Value
	most time.Duration
}

// beyond is a time too long to be counted in nanoseconds, which time.ParseDuration calls invalid.
var beyond = regexp.MustCompile(`^[-+]?[0-9.]+(h|m|s|ms|us|µs|ns)([0-9]|$)`)

// Set implements pflag.Value.
func (d duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err == nil && v.Abs() > d.most || err != nil && beyond.MatchString(text) {
		return fmt.Errorf("use %vh at most", d.most.Hours())
	}
	return d.Value.Set(text)
}
