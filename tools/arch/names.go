package arch

import (
	"bytes"
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

// besideGo are the files that may lie in a package's folder beside Go: what it
// embeds, and how it is built elsewhere. Everything else that a package needs is a sample, below testdata, or
// something that a run has left behind.
var besideGo = []string{".go", ".md", ".py", ".sha256", ".toml"}

// program begins every executable that Go builds on Linux.
const program = "\x7fELF"

// CheckStrays finds files in packages' folders that do not belong there, and compiled programs anywhere.
func CheckStrays(t *Tree) []Finding {
	packages := map[string]bool{}
	for _, row := range Rows() {
		packages[row.Path] = true
	}
	var found []Finding
	for _, f := range t.Files {
		if bytes.HasPrefix(f.Src, []byte(program)) {
			// `go build ./a/command` leaves one in the folder it is called in, where `git add -A` takes it along.
			found = append(found, Finding{f.Path, 1, "stray", "this is a compiled program", "delete it; make build writes to bin, which git ignores"})
			continue
		}
		if packages[f.Dir()] && !slices.Contains(besideGo, path.Ext(f.Path)) {
			found = append(found, Finding{f.Path, 1, "stray", "this is no source file", "delete it, or move it below testdata"})
		}
	}
	return found
}
