package arch

import (
	"fmt"
	"go/ast"
)

// The caps. They are far above what to aim for (40 to 250 lines a file, 25 a
// function); what reaches them has often been two things for a while.
const (
	maxFileLines     = 500
	maxTestFileLines = 800
	maxFuncLines     = 70
	maxTestFuncLines = 120 // a test's table is data
	maxMethods       = 4
	maxParams        = 4
)

// CheckSizes finds files and interfaces that have outgrown their caps.
func CheckSizes(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		most := maxFileLines
		if f.Test() {
			most = maxTestFileLines
		}
		if n := f.lines(); n > most {
			found = append(found, t.at(f.AST.Package, "size",
				fmt.Sprintf("the file has %d lines, the cap is %d", n, most), "give one of its concepts its own file"))
		}
		for _, spec := range typeSpecs(f) {
			found = append(found, t.checkInterface(f, spec)...)
		}
	}
	return found
}

// WeighSizes finds functions and parameter lists that have outgrown their caps, for a reviewer to weigh: a thought that
// does not end at the cap is not to be cut there.
func WeighSizes(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		most := maxFuncLines
		if f.Test() {
			most = maxTestFuncLines
		}
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				found = append(found, t.checkFunc(f, fn, most)...)
			}
		}
	}
	return found
}

// typeSpecs returns the types that a file declares, also inside of functions.
func typeSpecs(f *File) (all []*ast.TypeSpec) {
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			all = append(all, spec)
		}
		return true
	})
	return all
}

func (t *Tree) checkFunc(f *File, fn *ast.FuncDecl, lineCap int) []Finding {
	var found []Finding
	lines := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
	if lines > lineCap {
		found = append(found, t.at(fn.Pos(), "size",
			fmt.Sprintf("%s has %d lines, the cap is %d", fn.Name.Name, lines, lineCap), "take out a step that can be said in one sentence, or number the steps"))
	}
	if n := params(fn.Type); n > maxParams && !f.Test() {
		found = append(found, t.at(fn.Pos(), "size",
			fmt.Sprintf("%s takes %d parameters, the cap is %d", fn.Name.Name, n, maxParams), "make them a struct with a name"))
	}
	return found
}

func (t *Tree) checkInterface(f *File, spec *ast.TypeSpec) []Finding {
	iface, ok := spec.Type.(*ast.InterfaceType)
	if !ok || f.Test() {
		return nil
	}
	var found []Finding
	if n := iface.Methods.NumFields(); n > maxMethods {
		found = append(found, t.at(spec.Pos(), "size",
			fmt.Sprintf("interface %s has %d methods, the cap is %d", spec.Name.Name, n, maxMethods),
			"let each consumer declare the few that it calls"))
	}
	for _, m := range iface.Methods.List {
		fn, ok := m.Type.(*ast.FuncType)
		if !ok {
			continue
		}
		if n := params(fn); n > maxParams {
			found = append(found, t.at(m.Pos(), "size",
				fmt.Sprintf("a method of %s takes %d parameters, the cap is %d", spec.Name.Name, n, maxParams),
				"make them a struct with a name"))
		}
	}
	return found
}

// params counts parameters other than a context.
func params(fn *ast.FuncType) int {
	n := 0
	for _, field := range fn.Params.List {
		if sel, ok := field.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Context" {
			continue
		}
		n += max(1, len(field.Names))
	}
	return n
}
