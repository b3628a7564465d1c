package arch

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"
)

// The command is thin: each file reads flags, calls one thing and prints what it returns.
const (
	command         = "cmd/bellows"
	maxCommandLines = 3200
)

// CheckCommand holds the command line to that: a bound on all of its lines, and nothing that
// runs beside its caller, for what does has a life of its own and belongs to a package.
func CheckCommand(t *Tree) []Finding {
	var found []Finding
	total := map[string]int{}
	for f := range t.goFiles {
		if f.Dir() != command && f.Dir() != labCommand || f.Test() {
			continue
		}
		if total[f.Dir()] += f.lines(); total[f.Dir()] > maxCommandLines {
			found = append(found, t.at(f.AST.Package, "command", fmt.Sprintf("%s has more than %d lines", f.Dir(), maxCommandLines),
				"move what is no flag, call or print to a package of its own"))
			total[f.Dir()] = 0 // reported once
		}
		for _, spec := range f.AST.Imports {
			if name, err := strconv.Unquote(spec.Path.Value); err == nil && (name == "sync" || strings.HasPrefix(name, "sync/")) {
				found = append(found, t.at(spec.Pos(), "command", "the command imports "+name, "move what runs side by side to a package of its own"))
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				found = append(found, t.at(g.Pos(), "command", "the command starts a goroutine", "move what it does to a package, whose functions return when it has ended"))
			}
			return true
		})
	}
	return found
}
