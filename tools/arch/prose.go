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
	sentences := t.sentences()
	for f := range t.goFiles {
		if f.Test() || inLaboratory(f.Dir()) || strings.HasPrefix(f.Dir(), "tools/arch") || f.Path == "record/oldreasons.go" {
			continue
		}
		names := importNames(f.AST)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if readsText(n, names, sentences) {
				found = append(found, t.at(n.Pos(), "prose", "decides by the wording of a text for people", "give it a code (package reason) or a field"))
			}
			return true
		})
	}
	return found
}

func readsText(n ast.Node, names map[string]string, sentences map[string]bool) bool {
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
		return isText(n.X) && isWording(n.Y, sentences) || isText(n.Y) && isWording(n.X, sentences)
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

// isWording reports whether an expression is a literal text with words in it, alone or with others, or a constant that is one.
// That a text has changed is no wording.
func isWording(e ast.Expr, sentences map[string]bool) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING && e.Value != `""` && e.Value != "``"
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isWording(e.X, sentences) || isWording(e.Y, sentences))
	case *ast.Ident:
		return sentences[e.Name]
	case *ast.SelectorExpr:
		return sentences[e.Sel.Name]
	}
	return false
}

// sentences are the names of the constants that are a text of several words.
func (t *Tree) sentences() map[string]bool {
	all := map[string]bool{}
	for f := range t.goFiles {
		for _, d := range f.AST.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, value := range v.Values {
					if l, ok := value.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.Contains(l.Value, " ") {
						all[v.Names[i].Name] = true
					}
				}
			}
		}
	}
	return all
}
