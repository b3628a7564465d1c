package arch

import (
	"fmt"
	"go/ast"
	"strings"
)

// CheckKeys finds production code outside package record that takes a key of etcd
// apart: a function of package strings or path that cuts, or a slice expression,
// with a prefix of package record or a value named key. Only record knows how keys
// are built; record.Locate says what a key is about.
func CheckKeys(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		names := importNames(f.AST)
		if f.Test() || f.Dir() == "record" || strings.HasPrefix(f.Dir(), "record/") || !knowsRecords(names) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if cutsKey(n, names) {
				found = append(found, t.at(n.Pos(), "keys", fmt.Sprintf("%s takes a key of etcd apart", f.Dir()), "use record.Locate"))
			}
			return true
		})
	}
	return found
}

// knowsRecords reports whether a file imports package record; in another, a key is
// something else.
func knowsRecords(names map[string]string) bool { return names["record"] == Module+"/record" }

func cutsKey(n ast.Node, names map[string]string) bool {
	switch n := n.(type) {
	case *ast.SliceExpr:
		return isKey(n.X, names)
	case *ast.CallExpr:
		pkg, fn := qualified(n.Fun, names)
		if !cuts(pkg, fn) {
			return false
		}
		for _, arg := range n.Args {
			if isKey(arg, names) {
				return true
			}
		}
	}
	return false
}

// cuts reports whether a function returns parts of a text, or where one begins.
func cuts(pkg, fn string) bool {
	if pkg == "path" {
		return fn == "Base" || fn == "Dir" || fn == "Split"
	}
	for _, verb := range []string{"Cut", "Trim", "Split", "Fields", "Index", "LastIndex"} {
		if pkg == "strings" && strings.HasPrefix(fn, verb) {
			return true
		}
	}
	return false
}

// isKey reports whether an expression is named key, or is a prefix of package
// record, a constant or the result of a call.
func isKey(e ast.Expr, names map[string]string) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "key"
	case *ast.CallExpr:
		return isKey(e.Fun, names)
	case *ast.SelectorExpr:
		pkg, name := qualified(e, names)
		return pkg == Module+"/record" && (name == "Root" || strings.HasSuffix(name, "Prefix")) || pkg == "" && e.Sel.Name == "Key"
	default:
		return false
	}
}
