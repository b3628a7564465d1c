// Package flags is what the command line's flags are declared with: the one owner of the
// library for them. The names are the library's own; docs of pflag.FlagSet apply.
package flags

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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

// groupKey is the annotation of a flag that is shown in a group.
const groupKey = "bellows_group"

// A Group is flags that the help of a command shows together.
type Group struct {
	Title string
	Names []string // those that a set lacks count for nothing
}

// Arrange has the help of a command show flags in groups, in this order. A flag in none is shown under "Other".
func Arrange(f *Set, groups []Group) {
	for i, g := range groups {
		for k, name := range g.Names {
			if x := f.Lookup(name); x != nil {
				if x.Annotations == nil { // else cobra keeps something of its own there
					x.Annotations = map[string][]string{}
				}
				x.Annotations[groupKey] = []string{fmt.Sprintf("%03d.%03d", i, k), g.Title}
			}
		}
	}
}

// Shown is a group of flags as the help shows it.
type Shown struct {
	Title string // "" = nothing was arranged
	Flags []*Flag
}

// InGroups returns the flags of a set that are not hidden, in the groups that they were arranged in.
func InGroups(f *Set) []Shown {
	byPlace, titles := map[string]*Flag{}, map[string]string{}
	f.VisitAll(func(x *Flag) {
		place := "~" + x.Name // behind all that were arranged
		if g := x.Annotations[groupKey]; len(g) == 2 {
			place, titles[g[0]] = g[0], g[1]
		}
		if !x.Hidden {
			byPlace[place] = x
		}
	})
	var shown []Shown
	for _, place := range slices.Sorted(maps.Keys(byPlace)) {
		title := titles[place]
		if title == "" && len(titles) > 0 {
			title = "Other"
		}
		if last := len(shown) - 1; last < 0 || shown[last].Title != title {
			shown = append(shown, Shown{Title: title})
		}
		last := &shown[len(shown)-1]
		last.Flags = append(last.Flags, byPlace[place])
	}
	return shown
}

// Usages are the lines on the flags of a set for a terminal, in their groups.
func Usages(f *Set) string {
	var text strings.Builder
	text.WriteString("Flags:\n")
	for _, g := range InGroups(f) {
		set := New(g.Title)
		set.SortFlags = false
		for _, x := range g.Flags {
			set.AddFlag(x)
		}
		if g.Title != "" {
			text.WriteString("\n" + g.Title + ":\n")
		}
		text.WriteString(set.FlagUsages())
	}
	return text.String()
}

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
