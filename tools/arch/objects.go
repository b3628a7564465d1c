package arch

import (
	"fmt"
	"go/ast"
)

// The caps of a type. A type that reaches them owns several things: each has
// fields and functions of its own.
const (
	maxFunctions = 40
	maxFields    = 20
)

// An object is a struct and what its package does with it.
type object struct {
	spec      *ast.TypeSpec
	fields    int
	functions int // its methods, and the functions that take it or a pointer to it
	methods   int
	changing  int // methods with a pointer receiver
	pointers  int // functions and methods that get a pointer to it
}

// WeighObjects finds types of production code with too many functions or fields, for a reviewer to weigh.
// Two kinds of types are only data and exempt from one of the caps each:
//   - a record, specification, configuration or message: an exported struct that
//     no method changes, as api.JobStatus, may have any number of fields;
//   - what functions read: a struct without methods that is passed by value only,
//     as coordinator's situation, may have any number of functions.
func WeighObjects(t *Tree) []Finding {
	var found []Finding
	for dir, files := range t.packages() {
		if inLaboratory(dir) {
			continue
		}
		for _, o := range objects(files) {
			if n := o.functions; n > maxFunctions && (o.methods > 0 || o.pointers > 0) {
				found = append(found, t.at(o.spec.Pos(), "objects",
					fmt.Sprintf("%s has %d methods and functions that take it, the cap is %d", o.spec.Name.Name, n, maxFunctions),
					"take out what uses few of its fields, with these, as a type of its own"))
			}
			if o.fields > maxFields && (!o.spec.Name.IsExported() || o.changing > 0) {
				found = append(found, t.at(o.spec.Pos(), "objects",
					fmt.Sprintf("%s has %d fields, the cap is %d", o.spec.Name.Name, o.fields, maxFields),
					"make a struct of those that change together"))
			}
		}
	}
	return found
}

// objects returns the structs of a package by name, without those of its tests.
func objects(files []*File) map[string]*object {
	all := map[string]*object{}
	each := func(do func(ast.Node) bool) {
		for _, f := range files {
			if !f.Test() {
				ast.Inspect(f.AST, do)
			}
		}
	}
	each(func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			all[spec.Name.Name] = newObject(spec, s)
		}
		return true
	})
	each(func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok {
			countFunction(all, fn)
			return false
		}
		return true
	})
	return all
}

func newObject(spec *ast.TypeSpec, s *ast.StructType) *object {
	o := &object{spec: spec}
	for _, field := range s.Fields.List {
		o.fields += max(1, len(field.Names)) // an embedded field has no name
	}
	return o
}

// countFunction counts a function once for each object that it gets.
func countFunction(all map[string]*object, fn *ast.FuncDecl) {
	counted := map[*object]bool{}
	count := func(list *ast.FieldList, receiver bool) {
		if list == nil {
			return
		}
		for _, field := range list.List {
			name, pointer := taken(field.Type)
			o := all[name]
			if o == nil {
				continue
			}
			if !counted[o] {
				o.functions++
			}
			counted[o] = true
			if receiver {
				o.methods++
			}
			if pointer {
				o.pointers++
			}
			if receiver && pointer {
				o.changing++
			}
		}
	}
	count(fn.Recv, true)
	count(fn.Type.Params, false)
}

// taken returns the package's own type that a parameter is of, and whether it is
// a pointer to it; "" for all others.
func taken(e ast.Expr) (name string, pointer bool) {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name, false
	case *ast.StarExpr:
		name, _ = taken(x.X)
		return name, true
	case *ast.IndexExpr: // of a generic type
		return taken(x.X)
	case *ast.IndexListExpr:
		return taken(x.X)
	default:
		return "", false
	}
}
