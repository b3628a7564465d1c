package arch

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// texts are the names of fields and variables that hold a text for people.
var texts = []string{
	"Reason", "ReasonText", "Why", "WhyText", "WhyPending", "Waits", "WaitsText", "Problem", "Cold", "Bad", "DeviceFiles",
	"reason", "why",
}

// CheckProse finds product code that decides by the wording of a text for people: a search in it, or a comparison of
// it with words. A decision needs a code, which package reason has, or a field of its own. record/oldreasons.go may
// read what versions without codes wrote.
func CheckProse(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		if f.Test() || inLaboratory(f.Dir()) || strings.HasPrefix(f.Dir(), "tools/arch") || f.Path == "record/oldreasons.go" {
			continue
		}
		names := importNames(f.AST)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if readsText(n, names) {
				found = append(found, t.at(n.Pos(), "prose", "decides by the wording of a text for people", "give it a code (package reason) or a field"))
			}
			return true
		})
	}
	return found
}

func readsText(n ast.Node, names map[string]string) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		pkg, fn := qualified(n.Fun, names)
		searches := slices.ContainsFunc([]string{"Contains", "HasPrefix", "HasSuffix", "Cut", "TrimPrefix", "TrimSuffix", "Index", "EqualFold"},
			func(verb string) bool { return strings.HasPrefix(fn, verb) })
		return pkg == "strings" && searches && len(n.Args) > 0 && isText(n.Args[0])
	case *ast.BinaryExpr:
		if n.Op != token.EQL && n.Op != token.NEQ {
			return false
		}
		return isText(n.X) && isWording(n.Y) || isText(n.Y) && isWording(n.X)
	}
	return false
}

// isText reports whether an expression is a text for people, by its name or as the result of a String method of one.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return slices.Contains(texts, e.Name)
	case *ast.SelectorExpr:
		return slices.Contains(texts, e.Sel.Name)
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "String" && len(e.Args) == 0 && isText(s.X)
	}
	return false
}

// isWording reports whether an expression is a literal text with words in it. That a text has changed is no wording.
func isWording(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING && l.Value != `""` && l.Value != "``"
}
