package solve_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/bellows-ml/bellows/allocator/solve"
)

// TestSecondSolveAllocatesNothing solves each problem again with the same
// Solver, warm and cold: what it needs it has from the first time. The runtime
// allocates now and then while a test runs: the average of several runs, rounded
// down, does not count that, and counts whatever each run allocates.
func TestSecondSolveAllocatesNothing(t *testing.T) {
	for _, size := range []struct {
		jobs, devices int
		counts        []int
	}{{60, 110, []int{1, 2, 4, 8, 16}}, {35, 70, []int{1, 2, 4, 8, 16}}, {300, 200, []int{0, 1, 2, 4, 8, 16}}, {5, 500, []int{1, 2, 4}}} {
		for seed := range uint64(4) {
			p := random(seed, size.jobs, size.devices, 5, size.counts)
			var s solve.Solver
			var o solve.Options
			again := func() {
				r, err := s.Solve(p, o)
				if err != nil {
					t.Fatal(err)
				}
				o.Prices = append(o.Prices[:0], r.Prices...)
			}
			again() // from nothing
			again() // from prices, which takes another way
			if n := testing.AllocsPerRun(8, again); n != 0 {
				t.Errorf("%d jobs, seed %d: %v allocations", size.jobs, seed, n)
			}
			o.Prices = nil
			if n := testing.AllocsPerRun(8, func() { o.Prices = nil; _, _ = s.Solve(p, o) }); n != 0 {
				t.Errorf("%d jobs, seed %d, from nothing: %v allocations", size.jobs, seed, n)
			}
		}
	}
}

// TestCheckersStandAlone holds eval.go to its word: it may call fmt, what the
// language has, and nothing that another file of the package declares but the
// types of the question.
func TestCheckersStandAlone(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "eval.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Imports {
		if i.Path.Value != `"fmt"` {
			t.Errorf("eval.go imports %s", i.Path.Value)
		}
	}
	given := map[string]bool{"Problem": true, "OneStep": true, "len": true, "range": true, "float64": true, "int": true, "error": true, "fmt": true, "nil": true, "true": true, "false": true}
	// What it names and does not declare itself the parser cannot resolve.
	for _, name := range f.Unresolved {
		if !given[name.Name] {
			t.Errorf("eval.go uses %s, which it does not declare", name.Name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); !ok || x.Name != "fmt" {
				t.Errorf("eval.go calls a method, %s", s.Sel.Name)
			}
		}
		return true
	})
}
