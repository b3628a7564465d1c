package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// CheckPackageDocs demands one package comment of substance a package: it
// names the package and has two sentences or more, in exactly one file.
func CheckPackageDocs(t *Tree) []Finding {
	const rule = "package doc"
	var found []Finding
	for dir, files := range t.packages() {
		documented := 0
		first := files[0]
		for _, f := range files {
			if first.Test() && !f.Test() {
				first = f
			}
			if f.AST.Doc == nil {
				continue
			}
			documented++
			if documented > 1 {
				found = append(found, t.at(f.AST.Package, rule, dir+" has a second package comment", "merge it into the first"))
			}
			if problem := judgeDoc(f.AST.Name.Name, f.AST.Doc.Text()); problem != "" {
				found = append(found, t.at(f.AST.Package, rule, problem,
					"say what the package is and what it promises, in two sentences or more"))
			}
		}
		if documented == 0 {
			found = append(found, t.at(first.AST.Package, rule, dir+" has no package comment",
				"write one that says what the package is and what it promises"))
		}
	}
	return found
}

var sentenceEnd = regexp.MustCompile(`[.!?:]["')]*(\s|$)`)

func judgeDoc(name, text string) string {
	want := "Package " + strings.TrimSuffix(name, "_test") + " "
	if name == "main" {
		want = "Command "
	}
	if !strings.HasPrefix(text, want) {
		return fmt.Sprintf("the package comment does not begin with %q", want)
	}
	if len(sentenceEnd.FindAllString(text, -1)) < 2 {
		return "the package comment is a single sentence"
	}
	return ""
}

// promised lists methods whose promise is that of a standard interface.
var promised = []string{
	"As", "Error", "Is", "Len", "Less", "MarshalJSON", "MarshalText", "Read", "String", "Swap",
	"UnmarshalJSON", "UnmarshalText", "Unwrap", "Write",
}

// CheckExportedDocs demands a comment on every exported name outside of tests.
// A group of constants or variables may share one, and a method like String
// needs none.
func CheckExportedDocs(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		if f.Test() {
			continue
		}
		for _, decl := range f.AST.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && needsDoc(d) {
					found = append(found, t.undocumented(d.Name))
				}
			case *ast.GenDecl:
				if d.Doc == nil || d.Tok == token.TYPE && d.Lparen.IsValid() {
					found = append(found, t.checkSpecs(d)...)
				}
			}
		}
	}
	return found
}

func (t *Tree) checkSpecs(d *ast.GenDecl) []Finding {
	var found []Finding
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil {
				found = append(found, t.undocumented(s.Name))
			}
		case *ast.ValueSpec:
			if s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
				found = append(found, t.undocumented(s.Names[0]))
			}
		}
	}
	return found
}

func (t *Tree) undocumented(id *ast.Ident) Finding {
	return t.at(id.Pos(), "doc", "exported "+id.Name+" has no comment",
		"say what it promises: units, ownership, order, concurrency, zero value; or unexport it")
}

// needsDoc reports whether an exported function or method has to say what it
// promises: godoc shows it, and no standard interface says it already.
func needsDoc(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	if slices.Contains(promised, d.Name.Name) {
		return false
	}
	id := receiverName(d.Recv.List[0].Type)
	return id != nil && id.IsExported()
}

func receiverName(e ast.Expr) *ast.Ident {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.IndexListExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x
	default:
		return nil
	}
}
