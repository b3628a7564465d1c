package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

const root = "../.."

// A mutant whose text has gone, or whose tests have, would prove nothing. The
// run itself takes many minutes and is not part of the tests.
func TestMutantsFitTheCode(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			if names[m.Name] {
				t.Error("the name is taken by another mutant")
			}
			names[m.Name] = true
			if m.Breaks == "" {
				t.Error("what breaks without the rule is not said")
			}
			src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
			if err != nil {
				t.Fatal(err)
			}
			edited, err := m.Apply(src)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(m.File) == ".go" {
				if _, err := parser.ParseFile(token.NewFileSet(), m.File, edited, 0); err != nil {
					t.Error(err)
				}
			}
			if !hasTest(t, m.Package(), m.Tests) {
				t.Errorf("no test of %s matches %q", m.Package(), m.Tests)
			}
		})
	}
}

// A rule of the coordinator that has a switch needs no mutant: rule_test.go has a storm or a schedule that breaks without it.
func TestEverySwitchedRuleIsTakenOut(t *testing.T) {
	read := func(name string) string {
		src, err := os.ReadFile(filepath.Join(root, "coordinator", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(src)
	}
	rules := regexp.MustCompile(`(?m)^\t([A-Z]\w+) .*// `).FindAllStringSubmatch(ruleBlock.FindString(read("config.go")), -1)
	if len(rules) < 20 {
		t.Fatalf("%d rules found in coordinator/config.go: are they declared in another way now?", len(rules))
	}
	tests := read("rule_test.go")
	for _, r := range rules {
		name := r[1]
		if !regexp.MustCompile(`(?m)^\t\t\{"[^"]+", coordinator\.` + name + `, `).MatchString(tests) {
			t.Errorf("coordinator/rule_test.go shows nothing that breaks without %s", name)
		}
	}
}

// ruleBlock is the declaration of the rules.
var ruleBlock = regexp.MustCompile(`(?s)\tLeaderCompare +Rule = 1 << iota.*?\n\)`)

// hasTest reports whether a package has a top-level test that the first element of a -run pattern names.
func hasTest(t *testing.T, dir, run string) bool {
	t.Helper()
	first := regexp.MustCompile(regexp.MustCompile(`^[^/]*`).FindString(run))
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(src, -1) {
			if first.Match(found[1]) {
				return true
			}
		}
	}
	return false
}

// The runner tells a test that notices from one that does not and from one that
// hangs, and all from an edit that does not compile.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	for name, src := range map[string]string{
		"go.mod":  "module sample\n\ngo 1.26\n",
		"rule.go": "package sample\n\nfunc safe(n int) bool { return n > 0 }\n\nfunc other() int { return 1 }\n\nfunc ends() bool { return !safe(-1) }\n",
		"rule_test.go": `package sample

import "testing"

func TestSafe(t *testing.T) {
	t.Run("zero", func(t *testing.T) {
		if safe(0) || other() == 0 {
			t.Error("zero is safe")
		}
	})
}

func TestCrash(t *testing.T) { _ = []int{0}[other()-1] }

func TestEnds(t *testing.T) {
	for !ends() {
		_ = other()
	}
}

func TestBroken(t *testing.T) { t.Fail() }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		old, edit, tests string
		limit            time.Duration
		want             Result
	}{
		{"n > 0", "true", "TestSafe", testTimeout, Result{Caught, "TestSafe/zero: rule_test.go:8: zero is safe"}},
		{"return 1", "return 2", "TestCrash", testTimeout, Result{Caught, "panic: runtime error: index out of range [1] with length 1 [recovered, repanicked]"}},
		{"!safe(-1)", "safe(-1)", "TestEnds", time.Second, Result{Hung, "TestEnds"}},
		{"return 1", "return 2", "TestSafe", testTimeout, Result{Verdict: Survived}},
		{"n > 0", "n + 1", "TestSafe", testTimeout, Result{Verdict: Invalid}},      // does not compile
		{"n > 9", "true", "TestSafe", testTimeout, Result{Verdict: Invalid}},       // not in the file
		{"sample", "sample\n", "TestSafe", testTimeout, Result{Verdict: Survived}}, // the package clause alone: nothing changes
	} {
		m := Mutant{Name: "m", File: "rule.go", Old: c.old, New: c.edit, Tests: c.tests}
		if got, err := Run(t.Context(), dir, m, c.limit); got != c.want {
			t.Errorf("%q → %q: %+v (%v), want %+v", c.old, c.edit, got, err, c.want)
		}
	}
	for tests, want := range map[string]bool{"TestSafe": true, "TestNone": false, "TestBroken": false} {
		if err := Baseline(t.Context(), dir, Mutant{File: "rule.go", Tests: tests}); (err == nil) != want {
			t.Errorf("baseline of %s: %v", tests, err)
		}
	}
}
