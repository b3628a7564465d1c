package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxUnlayeredLines is how large a package may be whose files need each other in circles. A reader holds a dozen files
// in mind at once, and needs an order in which to read more.
const maxUnlayeredLines = 3000

// layered are the packages that are held to an order whatever their size.
var layered = []string{"coordinator", "coordinator/speed", "coordinator/promise", "api", "api/serve"}

// CheckFiles finds circles among the files of a large package: a file that needs
// another one, which needs the first, directly or by others. Types, functions,
// methods, fields, constants and variables of the package count; tests do not.
// Each circle is one finding, with what makes each step of a shortest way around.
func CheckFiles(t *Tree) []Finding {
	var found []Finding
	packages := t.packages()
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if productLines(packages[dir]) <= maxUnlayeredLines && !slices.Contains(layered, dir) {
			continue
		}
		needs := t.fileNeeds(packages[dir])
		seen := map[string]bool{}
		for _, name := range slices.Sorted(maps.Keys(needs)) {
			if seen[name] {
				continue
			}
			circle := around(needs, name)
			if circle == nil {
				continue
			}
			var steps []string
			for i, from := range circle {
				seen[from] = true
				to := circle[(i+1)%len(circle)]
				steps = append(steps, fmt.Sprintf("%s needs %s of %s", from, needs[from][to].name, to))
			}
			found = append(found, t.at(needs[circle[0]][circle[1%len(circle)]].at, "files",
				"files in a circle: "+strings.Join(steps, ", "),
				"move what both need into a file of its own, below them"))
		}
	}
	return found
}

// productLines counts the lines of a package without its tests.
func productLines(files []*File) (n int) {
	for _, f := range files {
		if !f.Test() {
			n += f.lines()
		}
	}
	return n
}

// A need is one use of what another file declares.
type need struct {
	name string
	at   token.Pos
}

// fileNeeds returns, for each file of a package, the files that it needs and the first use of each.
func (t *Tree) fileNeeds(files []*File) map[string]map[string]need {
	var parsed []*ast.File
	for _, f := range files {
		if !f.Test() {
			parsed = append(parsed, f.AST)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// What other packages declare does not matter here, and is not looked for.
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := config.Check("layered", t.fset, parsed, info)
	name := func(p token.Pos) string { return path.Base(t.fset.Position(p).Filename) }
	needs := map[string]map[string]need{}
	for id, object := range info.Uses {
		from, to := name(id.Pos()), name(object.Pos())
		if object.Pkg() != pkg || !shared(object, pkg) || from == to {
			continue
		}
		if needs[from] == nil {
			needs[from] = map[string]need{}
		}
		if old, ok := needs[from][to]; !ok || id.Pos() < old.at {
			needs[from][to] = need{id.Name, id.Pos()}
		}
	}
	return needs
}

// shared reports whether an object may be used in other files: it is one of the package's, a method or a field.
func shared(object types.Object, pkg *types.Package) bool {
	switch o := object.(type) {
	case *types.Var:
		return o.IsField() || o.Parent() == pkg.Scope()
	case *types.Func:
		return true
	default:
		return o.Parent() == pkg.Scope()
	}
}

// around returns the files of a shortest circle through one, in order, and nil if there is none.
func around(needs map[string]map[string]need, start string) []string {
	before, next := map[string]string{}, []string{start}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for _, to := range slices.Sorted(maps.Keys(needs[at])) {
			if to == start {
				circle := []string{at}
				for at != start {
					at = before[at]
					circle = append(circle, at)
				}
				slices.Reverse(circle)
				return circle
			}
			if _, seen := before[to]; !seen {
				before[to], next = at, append(next, to)
			}
		}
	}
	return nil
}

// nothing imports packages that declare nothing.
type nothing struct{}

// Import implements types.Importer.
func (nothing) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}
