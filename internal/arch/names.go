package arch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A file or package with one of these names is about nothing, so everything
// ends up in it.
var emptyNames = []string{"util", "utils", "types", "helper", "helpers", "common", "misc", "pkg"}

var lowerSnake = regexp.MustCompile(`^[a-z0-9_]+\.go$`)

// CheckNames finds Go files and packages that are not named for a concept.
func CheckNames(t *Tree) []Finding {
	const rule, remedy = "name", "name it for the concept inside"
	var found []Finding
	for f := range t.goFiles {
		base := path.Base(f.Path)
		if !lowerSnake.MatchString(base) {
			found = append(found, t.at(f.AST.Package, rule, fmt.Sprintf("file name %s is not lower_snake.go", base), "rename it"))
		}
		for word := range strings.SplitSeq(strings.TrimSuffix(base, ".go"), "_") {
			if slices.Contains(emptyNames, word) {
				found = append(found, t.at(f.AST.Package, rule, fmt.Sprintf("file name %s says nothing", base), remedy))
			}
		}
		for word := range strings.SplitSeq(f.Dir(), "/") {
			if slices.Contains(emptyNames, word) {
				found = append(found, t.at(f.AST.Package, rule, fmt.Sprintf("folder name %s says nothing", word), remedy))
			}
		}
		name := strings.TrimSuffix(f.AST.Name.Name, "_test")
		if name != "main" && name != path.Base(f.Dir()) {
			found = append(found, t.at(f.AST.Package, rule,
				fmt.Sprintf("package %s lies in folder %s", name, f.Dir()), "give both one name"))
		}
	}
	return found
}
