package arch

import (
	"fmt"
	"go/ast"
	"strings"
)

// wakes is the method by which a rule of the coordinator asks for a later Step.
const wakes = "wake"

// CheckPredicates finds functions of the coordinator that report whether something is so, and ask for a later Step on
// the way, themselves or by others: who only wants to know would change when the leader acts.
func CheckPredicates(t *Tree) []Finding {
	const dir = "coordinator"
	calls, declared := map[string][]string{}, map[string]*ast.FuncDecl{}
	for _, f := range t.packages()[dir] {
		if f.Test() {
			continue
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Recv != nil {
				continue
			}
			declared[fn.Name.Name] = fn
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					switch of := call.Fun.(type) {
					case *ast.Ident:
						calls[fn.Name.Name] = append(calls[fn.Name.Name], of.Name)
					case *ast.SelectorExpr:
						if of.Sel.Name == wakes {
							calls[fn.Name.Name] = append(calls[fn.Name.Name], wakes)
						}
					}
				}
				return true
			})
		}
	}
	var found []Finding
	for _, f := range t.packages()[dir] {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || declared[fn.Name.Name] != fn || !strings.Contains(strings.Join(strings.Fields(fn.Doc.Text()), " "), "reports whether") {
				continue
			}
			if way := wayTo(calls, fn.Name.Name, map[string]bool{}); way != nil {
				found = append(found, t.at(fn.Pos(), "predicates", fmt.Sprintf("%s reports whether something is so, and asks for a later Step: %s",
					fn.Name.Name, strings.Join(way, " calls ")), "answer with the moment, and let the rule that asks wait for it"))
			}
		}
	}
	return found
}

// wayTo is how a function comes to ask for a later Step, nil if it does not.
func wayTo(calls map[string][]string, from string, seen map[string]bool) []string {
	if from == wakes {
		return []string{wakes}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, to := range calls[from] {
		if way := wayTo(calls, to, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}
