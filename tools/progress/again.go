package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// repeats is how often in a row a failed test has to pass alone to be called unsteady.
	repeats = 3
	// mostUnsteady is how many failed tests of a step are repeated. More are no accident.
	mostUnsteady = 3
)

// repeat runs the few tests that have failed in the step again, alone, and calls those unsteady that
// pass each time: a pause of a shared machine has outlasted a bound, or the test takes for granted what
// usually comes first. What they printed stays in the report, and they are counted, so that someone
// looks at them. It returns the step's error while any other failure is left.
//
// Nothing is repeated if the step has failed in another way as well: a data race, a panic, a test that
// did not end, a package that does not build.
func (s step) repeat(r *report, failed error, runAlone func(step, failure, io.Writer) error) error {
	candidates := slices.Clone(r.failures)
	if len(candidates) == 0 || len(candidates) > mostUnsteady || slices.ContainsFunc(candidates, func(f failure) bool { return !f.repeatable }) {
		return failed
	}
	for _, f := range candidates {
		r.say("== %s again, alone, %d times\n", f.what, repeats)
		if err := runAlone(s, f, r); err == nil {
			r.unsteadily(f)
		}
	}
	if len(r.failures) > 0 {
		return failed
	}
	return nil
}

// runAlone runs a test of a step by itself, with the step's settings, and prints what go says of it.
func runAlone(ctx context.Context, s step, f failure, out io.Writer) error {
	pkg, name, _ := strings.Cut(f.what, " ")
	args := []string{"test", "-count", fmt.Sprint(repeats), "-timeout", "30m", "-run", "^" + name + "$", "./" + pkg}
	for _, setting := range []string{"-race", "-short", "-vet=off"} { // with -short, tests start other programs; the linter vets
		if slices.Contains(s.args, setting) {
			args = slices.Insert(args, 1, setting)
		}
	}
	cmd := s.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}
