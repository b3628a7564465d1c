package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// CheckState finds package-level variables of pure packages that are, or could
// become, state. Three kinds are constants in all but name and stay: error
// sentinels, compiled patterns, and unexported tables, which are never written to: a literal, or what a function of
// the package makes of a table.
func CheckState(t *Tree) []Finding {
	pure := map[string]bool{}
	for _, r := range Rows() {
		pure[r.Path] = r.Grade == Pure
	}
	var found []Finding
	for dir, files := range t.packages() {
		if !pure[dir] {
			continue
		}
		tables := map[string]bool{}
		for _, f := range files {
			if !f.Test() {
				found = append(found, t.checkVars(f, tables)...)
			}
		}
		for _, f := range files {
			if !f.Test() {
				found = append(found, t.checkWrites(f, tables)...)
			}
		}
	}
	return found
}

// checkVars judges the declarations of one file and notes its tables.
func (t *Tree) checkVars(f *File, tables map[string]bool) []Finding {
	names := importNames(f.AST)
	var found []Finding
	for _, decl := range f.AST.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			spec, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, id := range spec.Names {
				var value ast.Expr
				if i < len(spec.Values) {
					value = spec.Values[i]
				}
				switch {
				case id.Name == "_" || constantCall(value, names):
				case !id.IsExported() && isTable(value, tables):
					tables[id.Name] = true
				default:
					found = append(found, t.at(id.Pos(), "state",
						fmt.Sprintf("package-level variable %s can be changed by anyone", id.Name),
						"pass it as a value, or make it a function that returns one"))
				}
			}
		}
	}
	return found
}

// constantCall reports whether a value is made by one of the few calls whose
// results cannot be modified.
func constantCall(value ast.Expr, names map[string]string) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	pkg, fn := qualified(call.Fun, names)
	switch pkg + "." + fn {
	case "errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer":
		return true
	default:
		return false
	}
}

// isTable reports whether a value is a literal, or made of tables that were declared before it, in the same file or an earlier one.
func isTable(value ast.Expr, tables map[string]bool) bool {
	switch v := value.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		_, ours := v.Fun.(*ast.Ident)
		return ours && len(v.Args) > 0 && !slices.ContainsFunc(v.Args, func(arg ast.Expr) bool {
			id, named := arg.(*ast.Ident)
			return !named || !tables[id.Name]
		})
	}
	return false
}

// checkWrites finds assignments to tables, by name: a local variable that
// shadows a table and is assigned to is found too, and had better be renamed.
func (t *Tree) checkWrites(f *File, tables map[string]bool) []Finding {
	var found []Finding
	note := func(e ast.Expr) {
		if id := root(e); id != nil && tables[id.Name] {
			found = append(found, t.at(id.Pos(), "state",
				fmt.Sprintf("table %s is written to", id.Name),
				"keep the table constant and the changing part in a value; rename a local that only shadows it"))
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					note(e)
				}
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				note(n.X)
			}
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
				note(n.Args[0])
			}
		}
		return true
	})
	return found
}

// root is the identifier that an expression reaches into, or nil.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}
