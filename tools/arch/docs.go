package arch

import (
	"fmt"
	"regexp"
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
