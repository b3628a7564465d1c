package arch

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// mostVague is how many vague subjects the whole tree may have: some name the Unix
// user of that name.
const mostVague = 20

// vague matches subjects that hide who acts. It is spelt so as not to match itself.
var vague = regexp.MustCompile(`(?i)n[o]body|some[b]ody|who[e]ver`)

// CheckWords bounds the vague subjects in code and text: sentences name the process
// or person that acts.
func CheckWords(t *Tree) []Finding {
	all, by := 0, map[string]int{}
	for _, f := range t.Files {
		if !slices.Contains([]string{".go", ".md", ".py"}, path.Ext(f.Path)) {
			continue
		}
		if n := len(vague.FindAllIndex(f.Src, -1)); n > 0 {
			all += n
			by[f.Path] += n
		}
	}
	if all <= mostVague {
		return nil
	}
	files := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(by[b]-by[a], strings.Compare(a, b)) })
	return []Finding{{
		File: files[0], Line: 1, Rule: "words",
		Problem: fmt.Sprintf("the tree has %d of %s, and may have %d; this file has %d", all, vague, mostVague, by[files[0]]),
		Remedy:  "name the process or person that acts: a reader, the other node, another user, no process",
	}}
}
