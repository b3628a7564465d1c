// Command mutants takes the safety rules out of the code, one at a time, and
// runs the tests that must notice it. It is what `make mutants` runs.
//
// A mutant is one edit of one file, with the tests of that file's own package
// that have to fail under it. The edit never touches the tree: the go command
// compiles the edited copy in place of the file (go test -overlay). A mutant
// under which the named tests pass has survived: the rule that it takes out is
// guarded by no test, or is not needed. One under which they hang until their time
// is up is not caught either: a busy machine may look the same.
//
// It exits with 1 if a mutant was not caught, if one does not compile, or if its
// text is not found exactly once in its file.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// run is the command, and returns its exit status.
func run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("only", "", "run only mutants whose name or file matches this regular expression")
	list := flags.Bool("list", false, "list the mutants and run nothing")
	root := flags.String("root", ".", "root of the module")
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "mutants: unexpected argument %q: name mutants with -only\n", flags.Arg(0))
		return 2
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: -only %q is not a regular expression: %v\n", *only, err)
		return 2
	}
	chosen := slices.DeleteFunc(All(), func(m Mutant) bool { return !pattern.MatchString(m.Name) && !pattern.MatchString(m.File) })
	switch {
	case len(chosen) == 0:
		fmt.Fprintf(os.Stderr, "mutants: no mutant matches -only %q; -list names them\n", *only)
		return 2
	case *list:
		for _, m := range chosen {
			fmt.Printf("%-28s %-34s %s\n", m.Name, m.File, m.Breaks)
		}
	case runAll(ctx, *root, chosen) > 0:
		return 1
	}
	return 0
}

// runAll runs the mutants in turn, says what became of each, and returns how many were not caught.
func runAll(ctx context.Context, root string, mutants []Mutant) (failed int) {
	type suite struct{ dir, tests string }
	baselines := map[suite]error{}
	for _, m := range mutants {
		began := time.Now()
		of := suite{m.Package(), m.Tests}
		if _, known := baselines[of]; !known {
			baselines[of] = Baseline(ctx, root, m)
		}
		result, err := Result{Verdict: Invalid}, baselines[of]
		if err == nil {
			result, err = Run(ctx, root, m, testTimeout)
		}
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "mutants: interrupted")
			return failed + 1
		}
		fmt.Printf("%-9s %-28s %-34s %4.0fs  %s\n", result.Verdict, m.Name, m.File, time.Since(began).Seconds(), m.Breaks)
		if err != nil {
			fmt.Printf("          %v\n", err)
		}
		if result.By != "" {
			fmt.Printf("          by %.300s\n", result.By)
		}
		if result.Verdict != Caught {
			failed++
		}
	}
	fmt.Printf("%d mutants, %d caught\n", len(mutants), len(mutants)-failed)
	return failed
}
