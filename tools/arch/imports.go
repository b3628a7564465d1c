package arch

import (
	"fmt"
	"strconv"
	"strings"
)

// CheckImports holds every import against the table of packages and the list
// of libraries.
func CheckImports(t *Tree) []Finding {
	const rule = "imports"
	rows := map[string]Row{}
	for _, r := range Rows() {
		rows[r.Path] = r
	}
	var found []Finding
	for f := range t.goFiles {
		row, ok := rows[f.Dir()]
		if !ok {
			found = append(found, t.at(f.AST.Package, rule,
				fmt.Sprintf("package %s is not in the table", f.Dir()),
				"add it to tools/arch/policy.go with its reason"))
			continue
		}
		for _, spec := range f.AST.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				panic(fmt.Sprintf("import %s survived the parser: %v", spec.Path.Value, err))
			}
			if problem, remedy := judgeImport(row, f.Test(), name); problem != "" {
				found = append(found, t.at(spec.Pos(), rule, problem, remedy))
			}
		}
	}
	return found
}

// judgeImport returns an empty problem for an import that is in order.
func judgeImport(row Row, test bool, name string) (problem, remedy string) {
	if own, ok := strings.CutPrefix(name, Module+"/"); ok {
		if test || allows(row.Imports, own) {
			return "", ""
		}
		return fmt.Sprintf("%s may not import %s (it may: %s)", row.Path, own, orNothing(row.Imports)),
			"pass the value in, or move the decision to the package it belongs to"
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return "", "" // the standard library; CheckReach judges that
	}
	for _, lib := range Libraries() {
		if name != lib.Prefix && !strings.HasPrefix(name, lib.Prefix+"/") {
			continue
		}
		if allows(lib.Owners, row.Path) || test && allows(lib.Tests, row.Path) {
			return "", ""
		}
		return fmt.Sprintf("%s may not import %s, which belongs to %s", row.Path, name, orNothing(lib.Owners+" "+lib.Tests)),
			"use that package's own types"
	}
	return fmt.Sprintf("%s is not in the list of libraries", name),
		"do without it, or add it to tools/arch/policy.go with its reason"
}

func orNothing(list string) string {
	if list = strings.Join(strings.Fields(list), ", "); list == "" {
		return "nothing"
	}
	return list
}
