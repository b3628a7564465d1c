// Package flags is what the command line's flags are declared with: the one owner of the
// library for them. The names are the library's own; docs of pflag.FlagSet apply.
package flags

import "github.com/spf13/pflag"

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
