package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// banned lists, for each grade below Shell, the standard packages it may not
// import; a name covers what lies under it.
func banned(g Grade) []string {
	switch g {
	case Pure:
		return []string{"context", "crypto/rand", "log", "net", "os", "runtime", "sync", "syscall", "unsafe"}
	case Virtual:
		return []string{"crypto/rand", "log", "net", "os", "syscall", "unsafe"}
	case Sealed:
		return []string{"net", "os", "syscall"}
	case Shell:
		return nil
	}
	panic(fmt.Sprintf("grade %d has no list of banned imports", g))
}

// clock is the part of package time that reads or waits for the real one.
var clock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// seeded is the part of math/rand that has no hidden state.
var seeded = []string{"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewSource", "NewZipf", "PCG", "Rand", "Source", "Source64", "Zipf"}

// CheckReach holds each package to its grade: what it imports, and what it
// calls. Test files may do as they like.
func CheckReach(t *Tree) []Finding {
	grades := map[string]Grade{}
	for _, r := range Rows() {
		grades[r.Path] = r.Grade
	}
	var found []Finding
	for f := range t.goFiles {
		grade, ok := grades[f.Dir()]
		if !ok || grade == Shell || f.Test() {
			continue
		}
		found = append(found, t.checkStdImports(f, grade)...)
		if grade == Sealed {
			continue
		}
		found = append(found, t.checkCalls(f)...)
		if grade == Pure {
			found = append(found, t.checkGoroutines(f)...)
		}
	}
	return found
}

func (t *Tree) checkStdImports(f *File, grade Grade) []Finding {
	var found []Finding
	for _, spec := range f.AST.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		for _, ban := range banned(grade) {
			if name == ban || strings.HasPrefix(name, ban+"/") {
				found = append(found, t.at(spec.Pos(), "reach",
					fmt.Sprintf("%s decides and may not import %s", f.Dir(), name),
					"take the value or a small interface as an argument; the shell has the real one"))
			}
		}
		if spec.Name != nil && spec.Name.Name == "." {
			found = append(found, t.at(spec.Pos(), "reach", "a dot import hides what is called", "import it by name"))
		}
	}
	return found
}

// checkCalls finds uses of the clock, of hidden randomness and of map order.
func (t *Tree) checkCalls(f *File) []Finding {
	names := importNames(f.AST)
	sorted := map[ast.Expr]bool{} // arguments of slices.Sorted…, whose order is mended at once
	var found []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			pkg, fn := qualified(n.Fun, names)
			if pkg == "slices" && strings.HasPrefix(fn, "Sorted") && len(n.Args) > 0 {
				sorted[n.Args[0]] = true
			}
			if pkg == "maps" && (fn == "Keys" || fn == "Values") && !sorted[n] {
				found = append(found, t.at(n.Pos(), "reach", "maps."+fn+" yields in map order", "wrap it in slices.Sorted"))
			}
		case *ast.SelectorExpr:
			pkg, name := qualified(n, names)
			switch {
			case pkg == "time" && slices.Contains(clock, name):
				found = append(found, t.at(n.Pos(), "reach", "time."+name+" reads or waits for the real clock", "take now as an argument"))
			case (pkg == "math/rand" || pkg == "math/rand/v2") && !slices.Contains(seeded, name):
				found = append(found, t.at(n.Pos(), "reach", "rand."+name+" cannot be replayed", "make a rand.New from the seed in the input"))
			}
		}
		return true
	})
	return found
}

func (t *Tree) checkGoroutines(f *File) []Finding {
	var found []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			found = append(found, t.at(g.Pos(), "reach", "a pure package starts a goroutine", "let the caller run it at the same time as others"))
		}
		return true
	})
	return found
}

// importNames maps the names that a file gives to its imports to their paths.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		full, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(full)
		if name == "v2" || name == "v3" {
			name = path.Base(path.Dir(full))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = full
	}
	return names
}

// qualified resolves pkg.Name to the package's path and the name, and anything
// else to empty strings.
func qualified(e ast.Expr, names map[string]string) (pkg, name string) {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return names[id.Name], sel.Sel.Name
}
