package arch_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/tools/arch"
)

// A sample is one small file, and what its rule finds in it: one substring a
// finding, none for a file that is in order.
type sample struct {
	path string
	src  string
	want []string
}

func lines(n int) string { return strings.Repeat("\n", n) }

// times repeats a declaration with the numbers from 1 to n in it.
func times(n int, format string) string {
	text := ""
	for i := range n {
		text += ";" + fmt.Sprintf(format, i+1)
	}
	return text
}

// ofRecords begins a file that knows package record.
const ofRecords = `package store; import ("path"; "strings"; "github.com/bellows-ml/bellows/record"); `

// samples shows of every rule that it can fail, and what it lets pass.
var samples = map[string][]sample{
	"imports": {
		{"cluster/a.go", `package cluster; import "github.com/bellows-ml/bellows/record"`, []string{"cluster/a.go:1: imports: cluster may not import record (it may: nothing)"}},
		{"cluster/a_test.go", `package cluster; import "github.com/bellows-ml/bellows/record"`, nil},
		{"record/a.go", `package record; import "github.com/bellows-ml/bellows/cluster"`, nil},
		{"lab/sim/a.go", `package sim; import _ "github.com/bellows-ml/bellows/coordinator/lead"`, []string{"lab/sim may not import coordinator/lead"}},
		{"lab/sim/a.go", `package sim; import _ "github.com/bellows-ml/bellows/store"`, []string{"lab/sim may not import store"}},
		{"lab/sim/a.go", `package sim; import _ "github.com/bellows-ml/bellows/agent/host"`, []string{"lab/sim may not import agent/host"}},
		{"queue/a.go", `package queue`, []string{"package queue is not in the table"}},
		{"agent/host/a.go", `package host; import "github.com/spf13/cobra"`, []string{"belongs to cmd/bellows"}},
		{"agent/host/a.go", `package host; import "github.com/rs/zerolog/log"`, nil},
		{"cluster/a.go", `package cluster; import "github.com/rs/zerolog"`, []string{"cluster may not import github.com/rs/zerolog"}},
		{"cluster/a.go", `package cluster; import "github.com/pkg/errors"`, []string{"not in the list of libraries"}},
		{"e2e/a_test.go", `package e2e; import "github.com/rogpeppe/go-internal/testscript"`, nil},
		{"e2e/a.go", `package e2e; import "github.com/rogpeppe/go-internal/testscript"`, []string{"may not import"}},
	},
	"prose": {
		{"coordinator/a.go", `package coordinator; import "strings"; func f(s state) bool { return strings.HasPrefix(s.Reason, "restart") }`, []string{"coordinator/a.go:1: prose: decides by the wording"}},
		{"coordinator/a.go", `package coordinator; import "strings"; func f(why string) bool { return strings.Contains(why, g().text()) }`, []string{"prose"}},
		{"coordinator/a.go", `package coordinator; import "strings"; func f(s state) string { a, _, _ := strings.Cut(s.Reason.String(), ";"); return a }`, []string{"prose"}},
		{"coordinator/a.go", `package coordinator; func f(s state) bool { return s.Reason == "accepted" }`, []string{"prose"}},
		{"coordinator/a.go", `package coordinator; func f(s, t state) bool { return s.Problem != "" && s.Problem != t.Problem }`, nil},
		{"coordinator/a.go", `package coordinator; import "strings"; func f(s state) bool { return strings.HasPrefix(s.Name, "a") }`, nil},
		{"coordinator/a.go", `package coordinator; const silent = "it says nothing"; func f(s state) bool { return s.Problem == silent }`, []string{"prose"}},
		{"coordinator/a.go", `package coordinator; const short = "x"; func f(s state) bool { return s.Problem == short }`, nil},
		{"cli/render/a.go", `package render; func f(s state) bool { return s.Why != "start with "+n }`, []string{"prose"}},
		{"coordinator/a_test.go", `package coordinator; import "strings"; func f(s state) bool { return strings.HasPrefix(s.Reason, "restart") }`, nil},
		{"record/oldreasons.go", `package record; import "strings"; func f(s state) bool { return strings.HasPrefix(s.Reason, "restart") }`, nil},
	},
	"laboratory": {
		{"coordinator/a.go", `package coordinator; import _ "github.com/bellows-ml/bellows/lab/trace"`, []string{"coordinator/a.go:1: laboratory: coordinator imports lab/trace"}},
		{"coordinator/a_test.go", `package coordinator; import _ "github.com/bellows-ml/bellows/lab/sim"`, []string{"coordinator imports lab/sim"}},
		{"coordinator/a_test.go", `package coordinator; import _ "github.com/bellows-ml/bellows/lab/machine"`, nil},
		{"coordinator/a.go", `package coordinator; import _ "github.com/bellows-ml/bellows/lab/machine"`, []string{"coordinator imports lab/machine"}},
		{"lab/sim/a.go", `package sim; import _ "github.com/bellows-ml/bellows/lab/trace"`, nil},
		{"lab/sim/a.go", `package sim; import _ "github.com/bellows-ml/bellows/coordinator"`, nil},
		{"lab/sim/a.go", `package sim; import _ "github.com/bellows-ml/bellows/lab/rules/muri"`, []string{"lab/sim imports lab/rules/muri"}},
		{"lab/rules/muri/a.go", `package muri; import _ "github.com/bellows-ml/bellows/lab/rules/pollux"`, []string{"lab/rules/muri imports lab/rules/pollux"}},
		{"cmd/bellows/a.go", `package main; import _ "github.com/bellows-ml/bellows/lab/sim"`, nil},
		{"cmd/bellows/a.go", `package main; import _ "github.com/bellows-ml/bellows/lab/milp"`, []string{"cmd/bellows imports lab/milp"}},
		{"cmd/bellows-lab/a.go", `package main; import _ "github.com/bellows-ml/bellows/lab/milp"`, nil},
		{"lab/batch/a.go", `package batch; import _ "github.com/bellows-ml/bellows/lab/rules"`, []string{"lab/batch imports lab/rules"}},
		{"lab/batch/a_test.go", `package batch; import _ "github.com/bellows-ml/bellows/lab/rules"`, nil},
	},
	"command": {
		{"cmd/bellows/a.go", "package main" + lines(3200), nil},
		{"cmd/bellows/a.go", "package main" + lines(3201), []string{"has more than 3200 lines"}},
		{"cmd/bellows/a_test.go", "package main" + lines(3201), nil},
		{"cmd/bellows/a.go", `package main; func f() { go f() }`, []string{"starts a goroutine"}},
		{"cmd/bellows/a.go", `package main; import "sync"`, []string{"imports sync"}},
		{"cmd/bellows-lab/a.go", `package main; func f() { go f() }`, []string{"starts a goroutine"}},
		{"cmd/bellows/a.go", `package main; import "sync/atomic"`, []string{"imports sync/atomic"}},
		{"cli/dev/a.go", `package dev; import "sync"; func f() { go f() }`, nil},
	},
	"reach": {
		{"cluster/a.go", `package cluster; import "os"`, []string{"may not import os"}},
		{"cluster/a.go", `package cluster; import "net/http"`, []string{"may not import net/http"}},
		{"cluster/a.go", `package cluster; import "sync/atomic"`, []string{"may not import sync/atomic"}},
		{"cluster/a_test.go", `package cluster; import "os"`, nil},
		{"cluster/a.go", `package cluster; import . "fmt"`, []string{"dot import"}},
		{"lab/sim/a.go", `package sim; import "sync"`, nil},
		{"lab/sim/a.go", `package sim; import "os"`, []string{"may not import os"}},
		{"checkpoint/a.go", `package checkpoint; import ("context"; "io/fs"; "crypto/sha256")`, nil},
		{"checkpoint/a.go", `package checkpoint; import "os"`, []string{"may not import os"}},
		{"agent/host/a.go", `package host; import "os"; func f() { go f() }`, nil},
		{"agent/a.go", `package agent; func f() { go f() }`, []string{"starts a goroutine"}},
		{"agent/a.go", `package agent; import "time"; var _ = time.Now`, []string{"time.Now reads"}},
		{"agent/a.go", `package agent; import clock "time"; func f() { clock.Sleep(1) }`, []string{"time.Sleep"}},
		{"lab/sim/a.go", `package sim; import "time"; func f() { <-time.After(1) }`, []string{"time.After"}},
		{"agent/a.go", `package agent; import "time"; func f(now time.Time) time.Duration { return now.Sub(time.Unix(0, 0)) }`, nil},
		{"agent/a.go", `package agent; import "math/rand/v2"; var _ = rand.IntN(3)`, []string{"rand.IntN cannot be replayed"}},
		{"agent/a.go", `package agent; import "math/rand/v2"; func f(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }`, nil},
		{"agent/a.go", `package agent; import ("maps"; "slices"); func f(m map[int]int) { slices.Collect(maps.Keys(m)) }`, []string{"map order"}},
		{"agent/a.go", `package agent; import ("maps"; "slices"); func f(m map[int]int) { slices.Sorted(maps.Keys(m)) }`, nil},
	},
	"state": {
		{"agent/a.go", `package agent; var count int`, []string{"variable count can be changed"}},
		{"agent/a.go", `package agent; import "errors"; var ErrGone = errors.New("gone")`, nil},
		{"agent/a.go", `package agent; var Names = []string{"a"}`, []string{"variable Names can be changed"}},
		{"agent/a.go", `package agent; var names = []string{"a"}; func f() string { return names[0] }`, nil},
		{"agent/a.go", `package agent; var names = []string{"a"}; func f() { names[0] = "b" }`, []string{"table names is written to"}},
		{"agent/a.go", `package agent; var ranks = map[string]int{}; func f() { ranks["a"]++ }`, []string{"table ranks is written to"}},
		{"agent/a.go", `package agent; var ranks = map[string]int{}; func f() { delete(ranks, "a") }`, []string{"table ranks is written to"}},
		{"agent/a.go", `package agent; type t struct{ n int }; var base = t{}; func f() *t { return &base }`, []string{"table base is written to"}},
		{"agent/a.go", `package agent; var names = []string{"a"}; var tree = plant(names); func plant(n []string) []string { return n }`, nil},
		{"agent/a.go", `package agent; var names = []string{"a"}; var tree = plant(names); func f() { tree[0] = "b" }`, []string{"table tree is written to"}},
		{"agent/a.go", `package agent; var tree = plant(); func plant() []int { return nil }`, []string{"variable tree can be changed"}},
		{"agent/a.go", `package agent; type i interface{}; type t int; var _ i = t(0)`, nil},
		{"agent/host/a.go", `package host; var count int`, nil},
	},
	"sizes": {
		{"agent/a.go", "package agent" + lines(499) + "// end", nil},
		{"agent/a.go", "package agent" + lines(500) + "// end", []string{"has 501 lines, the cap is 500"}},
		{"agent/a_test.go", "package agent" + lines(800) + "// end", []string{"has 801 lines, the cap is 800"}},
		{"agent/a.go", `package agent; type I interface { A(); B(); C(); D() }`, nil},
		{"agent/a.go", `package agent; type I interface { A(); B(); C(); D(); E() }`, []string{"interface I has 5 methods"}},
		{"agent/a.go", `package agent; type I interface { A(a, b, c, d, e int) }`, []string{"a method of I takes 5"}},
	},
	"functions": {
		{"agent/a.go", "package agent\nfunc f() {" + lines(69) + "}", nil},
		{"agent/a.go", "package agent\nfunc f() {" + lines(70) + "}", []string{"agent/a.go:2: size: f has 71 lines"}},
		{"agent/a_test.go", "package agent\nfunc f() {" + lines(120) + "}", []string{"f has 121 lines"}},
		{"agent/a.go", `package agent; func f(a, b, c, d, e int) {}`, []string{"f takes 5 parameters"}},
		{"agent/a_test.go", `package agent; func f(a, b, c, d, e int) {}`, nil},
		{"store/a.go", `package store; import "context"; func (s S) f(ctx context.Context, a, b, c, d int) {}`, nil},
	},
	"objects": {
		{"agent/a.go", "package agent; type t struct{}" + times(40, "func (x *t) m%d() {}"), nil},
		{"agent/a.go", "package agent; type t struct{}" + times(41, "func (x *t) m%d() {}"), []string{"t has 41 methods and functions that take it, the cap is 40"}},
		{"agent/a.go", "package agent; type t struct{}; func (x t) m() {}" + times(40, "func f%d(a int, x t) {}"), []string{"t has 41 methods"}},
		{"agent/a.go", "package agent; type t[X any] struct{}" + times(41, "func f%d(x *t[int]) {}"), []string{"t has 41 methods"}},
		{"agent/a.go", "package agent; type t struct{}; func f(x *t) {}" + times(40, "func f%d(x t) {}"), []string{"t has 41 methods"}},
		{"agent/a.go", "package agent; type t struct{}" + times(41, "func f%d(x t) {}"), nil}, // read, never changed
		{"agent/a.go", "package agent; type t struct{}" + times(41, "func f%d(x []*t) {}"), nil},
		{"agent/a_test.go", "package agent; type t struct{}" + times(41, "func (x *t) m%d() {}"), nil},
		{"lab/sim/a.go", "package sim; type t struct{}" + times(41, "func (x *t) m%d() {}"), nil},
		{"agent/a.go", "package agent; type t struct { z int" + times(19, "a%d int") + "}", nil},
		{"agent/a.go", "package agent; type t struct { z int" + times(19, "a%d int") + "; u }; type u struct{}", []string{"t has 21 fields, the cap is 20"}},
		{"agent/a.go", "package agent; type T struct { Z int" + times(20, "A%d int") + "}; func (x T) m() {}", nil},
		{"agent/a.go", "package agent; type T struct { Z int" + times(20, "A%d int") + "}; func (x *T) m() {}", []string{"T has 21 fields"}},
		{"agent/a.go", "package agent; type t struct { z int" + times(20, "a%d int") + "}; func (x t) m() {}", []string{"t has 21 fields"}},
	},
	"files": {
		{"coordinator/a.go", `package coordinator; func f() { g() }; func g() { f() }`, nil}, // TestCirclesOfFiles has those that fail
	},
	"keys": {
		{"store/a.go", ofRecords + `func f(k string) { strings.CutPrefix(k, record.NodesPrefix) }`, []string{"store takes a key of etcd apart; use record.Locate"}},
		{"store/a.go", ofRecords + `func f(k string) { strings.TrimPrefix(k, record.AckPrefix("n", "j", 1)) }`, []string{"a key of etcd"}},
		{"store/a.go", ofRecords + `func f(key string) { strings.Split(key, "/") }`, []string{"a key of etcd"}},
		{"store/a.go", ofRecords + `func f(kv record.KV) { path.Base(kv.Key) }`, []string{"a key of etcd"}},
		{"store/a.go", ofRecords + `func f(kv record.KV) string { return kv.Key[len(record.Root):] }`, []string{"a key of etcd"}},
		{"store/a.go", ofRecords + `func f(key string) bool { return strings.HasPrefix(key, record.Root) }`, nil},
		{"store/a.go", ofRecords + `func f(name string) { strings.Split(name, "/"); path.Base(name) }`, nil},
		{"store/a.go", `package store; import "strings"; func f(key string) { strings.Split(key, "/") }`, nil}, // of something else
		{"record/a.go", `package record; import "strings"; func f(key string) { strings.CutPrefix(key, Root) }`, nil},
	},
	"package docs": {
		{"agent/a.go", "// Package agent plans. It promises little.\npackage agent", nil},
		{"agent/a.go", "package agent", []string{"agent has no package comment"}},
		{"agent/a.go", "// Package agent plans.\npackage agent", []string{"single sentence"}},
		{"agent/a.go", "// Copyright owner. All rights reserved.\npackage agent", []string{`does not begin with "Package agent "`}},
		{"cmd/bellows/a.go", "// Command bellows runs. It is the only one.\npackage main", nil},
	},
	"predicates": {
		{"coordinator/a.go", "package coordinator\n// f reports whether it is so.\nfunc f(in situation) bool { return g(in) }\nfunc g(in situation) bool { in.wake(at); return true }", []string{"f calls g calls wake"}},
		{"coordinator/a.go", "package coordinator\n// f is from when on.\nfunc f(in situation) time.Time { in.wake(at); return at }", nil},
		{"coordinator/a.go", "package coordinator\n// f reports whether it is so.\nfunc f(in situation) bool { return g(in) }\nfunc g(in situation) bool { return true }", nil},
	},
	"strays": {
		{"lab/trace/66,10", "2", []string{"no source file"}},
		{"lab/milp/highs.sha256", "0", nil},
		{"sdk/pyproject.toml", "", nil},
		{"lab/trace/testdata/66,10", "2", nil},
		{"docs/66,10", "2", nil},
		{"mutants", "\x7fELF\x02\x01", []string{"compiled program"}},
		{"docs/logo.png", "\x89PNG\x00", nil},
	},
	"front": {
		{"README.md", lines(120), nil},
		{"README.md", lines(121), []string{"121 lines, at most 120"}},
		{"README.md", strings.Repeat("a ", 1301), []string{"1301 words, at most 1300"}},
		{"docs/a.md", lines(121), nil},
	},
	"links": {
		{"docs/a.md", "# One thing: `x`\n[here](a.md), [there](#one-thing-x), [all](../docs) and [away](https://example.org/b)", nil},
		{"docs/a.md", "\n[gone](b.md)", []string{"docs/a.md:2: link: no file docs/b.md"}},
		{"docs/a.md", "[gone](a.md#x)", []string{"no heading #x in docs/a.md"}},
	},
	"decisions": {
		{"docs/adr/0012-x.md", "# 12. X\n\nAccepted, 2026-11-21.\n", []string{"not in the index; add to docs/adr/README.md: | [12](0012-x.md) | X | accepted | 2026-11-21 |", "no code names it"}},
		{"docs/adr/0012-x.md", "# 13. X\n\nAccepted, 2026-11-21.\n", []string{"no number, title, status and date"}},
		{"docs/adr/0012-x.md", "# 12. X\n", []string{"no number, title, status and date"}},
		{"docs/adr/README.md", "", nil},
	},
	"stories": {
		{"coordinator/testdata/a.txt", "# A story.\nnode n1\n  txn\n", []string{`section "Coordinator" has no row for node`}},
		{"docs/stories.md", "## Agent\n| `halt` | `held j/1` | x |\n", []string{"the example of halt begins with held", `no script of section "Agent" uses halt`}},
		{"docs/stories.md", "nothing yet", nil},
	},
	"names": {
		{"agent/plan.go", "package agent", nil},
		{"agent/utils.go", "package agent", []string{"utils.go says nothing"}},
		{"agent/plan_helpers_test.go", "package agent_test", []string{"plan_helpers_test.go says nothing"}},
		{"pkg/agent/plan.go", "package agent", []string{"folder name pkg says nothing"}},
		{"agent/Plan.go", "package agent", []string{"not lower_snake.go"}},
		{"agent/plan.go", "package planner", []string{"package planner lies in folder agent"}},
		{"cmd/bellows/main.go", "package main", nil},
	},
	"machine paths": {
		{"docs/a.md", "see /wo" + "rk/main/x", []string{"docs/a.md:1: machine path"}},
		{"docs/a.md", "\n`/Us" + "ers/kim/x`", []string{"docs/a.md:2: machine path"}},
		{"docs/a.md", "--workdir=/wo" + "rk/x", []string{"machine path"}},
		{"docs/a.md", "see ./wo" + "rk/x, docs/wo" + "rk/x and $TMP/wo" + "rk/x", nil},
		{"docs/a.png", "\x00 /wo" + "rk/x", nil},
	},
	"words": {
		{"docs/a.md", strings.Repeat("who"+"ever comes ", 21), []string{"the tree has 21 of"}},
		{"docs/a.md", strings.Repeat("who"+"ever comes ", 20), nil},
		{"docs/a.txt", strings.Repeat("who"+"ever comes ", 21), nil},
	},
	"named tests": {
		{"docs/a.md", "\nTests: `TestA`.", []string{"docs/a.md:2: test: no test TestA"}},
		{"docs/a.md", "`test_a`, TestB", []string{"docs/a.md:1: test: no test test_a"}},
		{"docs/a.md", "`TestA`\nfunc TestA(t *testing.T) {}", []string{"no test TestA"}},
		{"docs/a.md", "`Tester`, a test_bench", nil},
	},
	"policies": { // TestPoliciesAreNamedOnce has those that fail
		{"coordinator/a.go", `package coordinator; const name = "flowtime"`, nil},
	},
	"scripts": {
		{"scripts/a", "#!/usr/bin/env bash\n# Does it.\n\nset -euo pipefail\n", nil},
		{"scripts/a", "#!/usr/bin/env bash\necho\n", []string{`scripts/a:2: script: the first command is "echo"`}},
		{"scripts/a", "#!/bin/sh\nset -euo pipefail\n", []string{`starts with "#!/bin/sh"`}},
		{"scripts/a.sh", "set -euo pipefail\n", []string{"start it with"}},
		{"scripts/a.py", "#!/usr/bin/python3\nimport os\n", nil},
	},
}

func TestSamples(t *testing.T) {
	all := maps.Clone(checks)
	maps.Copy(all, weighed)
	for rule, check := range all {
		if len(samples[rule]) == 0 {
			t.Errorf("rule %s has never been seen to fail: add a sample", rule)
		}
		for i, s := range samples[rule] {
			t.Run(fmt.Sprintf("%s/%d", rule, i), func(t *testing.T) {
				tree, err := arch.Parse(map[string]string{s.path: s.src})
				if err != nil {
					t.Fatal(err)
				}
				expect(t, check(tree), s.want)
			})
		}
	}
}

func TestTwoPackageComments(t *testing.T) {
	tree, err := arch.Parse(map[string]string{
		"agent/a.go": "// Package agent plans. It promises little.\npackage agent",
		"agent/b.go": "// Package agent plans. It promises little.\npackage agent",
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, arch.CheckPackageDocs(tree), []string{"second package comment"})
}

// A table declared in one file and written to in another is still written to.
func TestStateAcrossFiles(t *testing.T) {
	tree, err := arch.Parse(map[string]string{
		"agent/a.go": `package agent; func f() { names[0] = "b" }`,
		"agent/b.go": `package agent; var names = []string{"a"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, arch.CheckState(tree), []string{"agent/a.go:1: state: table names is written to"})
}

// A policy is known to its file, its story and the table, to tests and to the laboratory.
func TestPoliciesAreNamedOnce(t *testing.T) {
	tree, err := arch.Parse(map[string]string{
		"allocator/policy/table.go":              `package policy; var table = []entry{{eager{}, "about"}, {calm(), "about"}}; const Default = "eager"`,
		"allocator/policy/eager.go":              `package policy; type eager struct{}; func (eager) Name() string { return "eager" }; var again = eager{}`,
		"allocator/policy/calm.go":               `package policy; func calm() int { return help() }; func help() int { return 1 }; var other = eager{}`,
		"allocator/policy/draft.go":              `package policy; var shared = help() + calm()`,
		"allocator/policy/a_test.go":             `package policy; var _ = calm()`,
		"allocator/policy/testdata/eager.txt":    ``,
		"allocator/policy/testdata/calm.txt":     ``,
		"allocator/policy/testdata/priority.txt": ``,
		"coordinator/a.go":                       `package coordinator; var a, b = "eagerly", "priority"; var c = "eager"`,
		"coordinator/a_test.go":                  `package coordinator; var d = "eager"`,
		"lab/sim/a.go":                           `package sim; var a = "calm"`,
		"cmd/bellows/a.go":                       `package main; var a = "calm"`,
		"cmd/bellows/b.go":                       `package main; import "github.com/bellows-ml/bellows/lab/sim"; var b = sim.Of("calm")`,
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, arch.CheckPolicies(tree), []string{
		"allocator/policy/calm.go makes the policy eager", "allocator/policy/draft.go makes the policy calm",
		"cmd/bellows names the policy calm", "coordinator names the policy eager",
	})
}

// Files that need each other are found, by whatever they do.
func TestCirclesOfFiles(t *testing.T) {
	for name, c := range map[string]struct {
		a, b, c string
		want    []string
	}{
		"in order":   {`func f(x T) { x.m(); _ = k }`, `type T struct{ n int }; func (T) m() { g() }; const k = 1`, `func g() { var f int; _ = f }`, nil},
		"functions":  {`func f() { g() }`, `func g() { f() }`, ``, []string{"files in a circle: a.go needs g of b.go, b.go needs f of a.go"}},
		"by a third": {`func f() { g() }`, `func g() { h() }`, `func h() { f() }`, []string{"a.go needs g of b.go, b.go needs h of c.go, c.go needs f of a.go"}},
		"a method":   {`type T struct{}`, `func g() { T{}.m() }`, `func (T) m() { g() }`, []string{"b.go needs m of c.go, c.go needs g of b.go"}},
		"a field": {`type U int; func f() { h().n = 1 }`, `func h() *T { return nil }`, `type T struct{ n U }`, []string{
			"a.go needs n of c.go, c.go needs U of a.go", "b.go needs T of c.go, c.go needs U of a.go, a.go needs h of b.go",
		}},
		"a constant": {`const k = 1; var v = w`, `var w = k`, ``, []string{"a.go needs w of b.go, b.go needs k of a.go"}},
		"of others":  {`import "strings"; func f() { g(strings.Fields("")) }`, `import "strings"; func g([]string) { strings.Fields(""); f() }`, ``, []string{"a.go needs g of b.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := arch.Parse(map[string]string{
				"coordinator/a.go": "package coordinator\n" + c.a, "coordinator/b.go": "package coordinator\n" + c.b, "coordinator/c.go": "package coordinator\n" + c.c,
				"coordinator/d_test.go": "package coordinator\nfunc d() { f(); g() }",
				"agent/a.go":            "package agent\nfunc f() { g() }", "agent/b.go": "package agent\nfunc g() { f() }", // a small package may
			})
			if err != nil {
				t.Fatal(err)
			}
			expect(t, arch.CheckFiles(tree), c.want)
		})
	}
}

// Circles are looked for in all large packages. Tests make none large.
func TestCirclesInLargePackages(t *testing.T) {
	for lines, want := range map[int][]string{3000: nil, 3001: {"files in a circle: a.go needs g of b.go, b.go needs f of a.go"}} {
		tree, err := arch.Parse(map[string]string{
			"lab/trace/a.go":      "package trace\nfunc f() { g() }\n",
			"lab/trace/b.go":      "package trace\nfunc g() { f() }\n" + strings.Repeat("\n", lines-4),
			"lab/trace/a_test.go": "package trace\n" + strings.Repeat("\n", 1000),
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, arch.CheckFiles(tree), want)
	}
}

func expect(t *testing.T, found []arch.Finding, want []string) {
	t.Helper()
	for i, f := range found {
		if i >= len(want) || !strings.Contains(f.String(), want[i]) {
			t.Errorf("unexpected: %s", f)
		}
		if f.Remedy == "" {
			t.Errorf("no remedy: %s", f)
		}
	}
	for _, w := range want[min(len(found), len(want)):] {
		t.Errorf("not found: %s", w)
	}
}
