package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Mutant is one rule taken out of the code.
type Mutant struct {
	Name   string // of the rule
	File   string // slash-separated, relative to the module's root
	Old    string // occurs exactly once in the file
	New    string // what takes its place
	Breaks string // what goes wrong without the rule, with the invariant's name
	Tests  string // regular expression, as for go test -run: tests of the file's own package that must fail
}

// Package returns the directory of the package that owns the rule, as the go command takes it.
func (m Mutant) Package() string { return "./" + filepath.ToSlash(filepath.Dir(m.File)) }

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
	Invalid  Verdict = "INVALID"  // it could not be applied or does not compile
)

// testTimeout bounds the tests of one mutant: without a rule some of them wait
// for what never comes, and their own bounds are shorter.
const testTimeout = "15m"

// Run applies a mutant and runs the tests that have to notice it. The error says
// why a mutant is Invalid.
func Run(ctx context.Context, root string, m Mutant) (Verdict, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return Invalid, err
	}
	verdict, err := runIn(ctx, dir, root, m)
	return verdict, errors.Join(err, os.RemoveAll(dir))
}

func runIn(ctx context.Context, dir, root string, m Mutant) (Verdict, error) {
	overlay, err := writeOverlay(dir, root, m)
	if err != nil {
		return Invalid, err
	}
	binary := filepath.Join(dir, "mutant.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "-overlay", overlay, m.Package())
	compile.Dir = root
	if out, errCompile := compile.CombinedOutput(); errCompile != nil {
		return Invalid, fmt.Errorf("mutant %s does not compile: %w\n%s", m.Name, errCompile, out)
	}
	test := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout", testTimeout, "-test.run", m.Tests)
	test.Dir = filepath.Join(root, filepath.FromSlash(m.Package())) // where the go command would run it
	if _, err := test.CombinedOutput(); err != nil {
		return Caught, nil //nolint:nilerr // as it must
	}
	return Survived, nil
}

// Baseline runs a mutant's tests on the code as it is: a test that fails anyway
// would catch every mutant.
func Baseline(ctx context.Context, root string, m Mutant) error {
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-v", "-timeout", testTimeout, "-run", m.Tests, m.Package())
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
