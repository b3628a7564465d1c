package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// ProgressAuto stands for the lines of common trainers, in place of a pattern.
	ProgressAuto = "auto"
	// MaxProgressBytes bounds a pattern for progress.
	MaxProgressBytes = 1 << 10
)

// Groups of a pattern for progress.
const (
	ProgressStep    = "step"
	ProgressLoss    = "loss"
	ProgressSamples = "samples"
)

var progressGroups = []string{ProgressStep, ProgressLoss, ProgressSamples}

// nameThem is what to do with groups of which it is not known what they are.
const nameThem = `name them, as in '(?P<step>\d+)', or write (?:…) where nothing is to be read`

// CompileProgress compiles a pattern for lines that say how far a script is: RE2, whose
// time grows with the line and no faster, whatever the pattern. Its groups are named step,
// loss and samples, or the only one is the step. The error names the value and the remedy.
func CompileProgress(text string) (*regexp.Regexp, error) {
	clean := !hasNUL(text) && !strings.ContainsFunc(text, Disturbs)
	bad := func(format string, args ...any) error {
		said := fmt.Sprintf("%.*q", quoted, text)
		if clean { // as it was written: a backslash is one
			said = fmt.Sprintf("'%.*s'", quoted, text)
		}
		return fmt.Errorf("progress %s: %s", said, fmt.Sprintf(format, args...))
	}
	if len(text) > MaxProgressBytes {
		return nil, bad("it has %d bytes: use at most %d", len(text), MaxProgressBytes)
	}
	if !clean {
		return nil, bad(`it holds a control character: write it as an escape, such as \t`)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return nil, bad(`%s: use a regular expression as in 'step (\d+)'; look-around and back-references are not known`, why)
	}
	named, plain := 0, 0
	for i, name := range re.SubexpNames()[1:] {
		switch {
		case name == "":
			plain++
		case !slices.Contains(progressGroups, name):
			return nil, bad("group %.*q is not known: name groups %s", quoted, name, strings.Join(progressGroups, ", "))
		case slices.Index(re.SubexpNames(), name) != i+1:
			return nil, bad("group %q is there twice: keep one", name)
		default:
			named++
		}
	}
	switch {
	case named+plain == 0:
		return nil, bad(`it has no group: put the step's digits into parentheses, as in 'step (\d+)', or use %s`, ProgressAuto)
	case named > 0 && re.SubexpIndex(ProgressStep) < 0:
		return nil, bad(`no group is named step: name the step's, as in 'step (?P<step>\d+)'`)
	case named > 0 && plain > 0:
		return nil, bad(`not all of its groups have a name: %s`, nameThem)
	case plain > 1:
		return nil, bad(`it has %d groups without a name: %s`, plain, nameThem)
	}
	return re, nil
}

func (s Spec) validateProgress(add func(string, ...any)) {
	if s.Progress == "" || s.Progress == ProgressAuto {
		return
	}
	if _, err := CompileProgress(s.Progress); err != nil {
		add("%w", err)
	}
}
