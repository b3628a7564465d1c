package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A Mutant is one rule taken out of the code.
type Mutant struct {
	Name   string // of the rule
	File   string // slash-separated, relative to the module's root
	Old    string // occurs exactly once in the file
	New    string // what takes its place
	Breaks string // what goes wrong without the rule, with the invariant's name
	Tests  string // regular expression, as for go test -run: tests of the rule's own package that must fail
	Owner  string // directory of that package, where it is not the file's: of a file that is embedded
}

// Package returns the directory of the package that owns the rule, as the go command takes it.
func (m Mutant) Package() string {
	return "./" + cmp.Or(m.Owner, filepath.ToSlash(filepath.Dir(m.File)))
}

// Apply returns the file with the rule taken out.
func (m Mutant) Apply(src []byte) ([]byte, error) {
	if n := bytes.Count(src, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("mutant %s: its old text occurs %d times in %s, not once: the code has changed, so must the mutant", m.Name, n, m.File)
	}
	return bytes.Replace(src, []byte(m.Old), []byte(m.New), 1), nil
}

// Verdict is what became of a mutant.
type Verdict string

// The verdicts.
const (
	Caught   Verdict = "caught"   // the tests failed, as they must
	Survived Verdict = "SURVIVED" // the tests passed
	Hung     Verdict = "HUNG"     // the tests were ended by their time limit: nothing says that they have noticed
	Invalid  Verdict = "INVALID"  // it could not be applied or does not compile
)

// testTimeout bounds the tests of one mutant: without a rule some of them wait
// for what never comes, and their own bounds are shorter.
const testTimeout = 15 * time.Minute

// A Result is what became of one mutant.
type Result struct {
	Verdict Verdict
	By      string // the test that has noticed, with the first line of its complaint; or what hung
}

// Run applies a mutant and runs the tests that have to notice it, within a time
// limit. The error says why a mutant is Invalid.
func Run(ctx context.Context, root string, m Mutant, limit time.Duration) (Result, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return Result{Verdict: Invalid}, err
	}
	result, err := runIn(ctx, dir, root, m, limit)
	return result, errors.Join(err, os.RemoveAll(dir))
}

func runIn(ctx context.Context, dir, root string, m Mutant, limit time.Duration) (Result, error) {
	invalid := Result{Verdict: Invalid}
	overlay, err := writeOverlay(dir, root, m)
	if err != nil {
		return invalid, err
	}
	binary := filepath.Join(dir, "mutant.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "-overlay", overlay, m.Package())
	compile.Dir = root
	if out, errCompile := compile.CombinedOutput(); errCompile != nil {
		return invalid, fmt.Errorf("mutant %s does not compile: %w\n%s", m.Name, errCompile, out)
	}
	test := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout", limit.String(), "-test.run", m.Tests)
	test.Dir = filepath.Join(root, filepath.FromSlash(m.Package())) // where the go command would run it
	out, err := test.CombinedOutput()
	if err == nil {
		return Result{Verdict: Survived}, nil
	}
	return judge(string(out)), nil // as it must
}

var (
	timedOut  = regexp.MustCompile(`(?m)^panic: test timed out after .*(?:\n\s*running tests:\n\s*(\S+))?`)
	panicked  = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`)
	failed    = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	complaint = regexp.MustCompile(`(?m)^\s*\w+_test\.go:\d+: .*`)
)

// judge reads what tests have printed that did not pass. Time that ran out is no
// complaint of a test: under load, tests that notice nothing look like this too.
func judge(out string) Result {
	if hung := timedOut.FindStringSubmatch(out); hung != nil {
		return Result{Hung, hung[1]}
	}
	by := panicked.FindString(out)
	if all := failed.FindAllStringSubmatch(out, -1); by == "" && all != nil {
		by = all[0][1] // the first one; its subtests follow it
		for _, f := range all {
			if strings.HasPrefix(f[1], by+"/") {
				by = f[1]
			}
		}
		by += ": " + strings.TrimSpace(complaint.FindString(out))
	}
	return Result{Caught, by}
}

// Baseline runs a mutant's tests on the code as it is: a test that fails anyway
// would catch every mutant.
func Baseline(ctx context.Context, root string, m Mutant) error {
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-v", "-timeout", testTimeout.String(), "-run", m.Tests, m.Package())
	test.Dir = root
	out, err := test.CombinedOutput()
	switch {
	case err != nil:
		return fmt.Errorf("the tests %q of %s fail without any edit: %w\n%s", m.Tests, m.Package(), err, out)
	case !bytes.Contains(out, []byte("--- PASS")):
		return fmt.Errorf("no test of %s matches %q", m.Package(), m.Tests)
	}
	return nil
}

// writeOverlay writes the edited file, and what tells the go command to compile it in place of the original.
func writeOverlay(dir, root string, m Mutant) (string, error) {
	original, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", err
	}
	src, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	edited, err := m.Apply(src)
	if err != nil {
		return "", err
	}
	replacement := filepath.Join(dir, strings.ReplaceAll(m.File, "/", "_"))
	if err = os.WriteFile(replacement, edited, 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}
