package arch

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// The front page is read in five minutes, and the top folder at a glance.
const (
	frontLines = 120
	frontWords = 1300
	topFolders = 20
)

// CheckFront bounds README.md and the number of folders at the top.
func CheckFront(t *Tree) []Finding {
	const rule = "front"
	var found []Finding
	top := map[string]bool{}
	for _, f := range t.Files {
		if dir, _, below := strings.Cut(f.Path, "/"); below && !strings.HasPrefix(dir, ".") {
			top[dir] = true
		}
		if f.Path != "README.md" {
			continue
		}
		if n := f.lines(); n > frontLines {
			found = append(found, Finding{f.Path, n, rule, fmt.Sprintf("%d lines, at most %d", n, frontLines), "move a part below docs/ and link to it"})
		}
		if n := len(bytes.Fields(f.Src)); n > frontWords {
			found = append(found, Finding{f.Path, 1, rule, fmt.Sprintf("%d words, at most %d", n, frontWords), "move a part below docs/ and link to it"})
		}
	}
	if len(top) > topFolders {
		found = append(found, Finding{".", 1, rule, fmt.Sprintf("%d folders at the top, at most %d", len(top), topFolders), "move a small package below internal or cli"})
	}
	return found
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchor  = regexp.MustCompile("[^a-z0-9 _-]")
)

// CheckLinks demands that every relative link of a Markdown page leads to a
// file or folder of the tree, and its fragment to a heading there.
func CheckLinks(t *Tree) []Finding {
	pages := map[string]*File{}
	there := map[string]bool{".": true}
	for _, f := range t.Files {
		pages[f.Path] = f
		for p := f.Path; p != "."; p = path.Dir(p) {
			there[p] = true
		}
	}
	var found []Finding
	for _, f := range t.Files {
		if path.Ext(f.Path) != ".md" {
			continue
		}
		for i, line := range strings.Split(string(f.Src), "\n") {
			for _, m := range markdownLink.FindAllStringSubmatch(line, -1) {
				if problem := brokenLink(f, m[1], there, pages); problem != "" {
					found = append(found, Finding{f.Path, i + 1, "link", problem, "correct the link"})
				}
			}
		}
	}
	return found
}

// brokenLink says what is wrong with one link of the page, if anything.
func brokenLink(page *File, link string, there map[string]bool, pages map[string]*File) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	name, fragment, _ := strings.Cut(link, "#")
	target := page.Path
	if name != "" {
		target = path.Join(page.Dir(), name)
	}
	if !there[target] {
		return fmt.Sprintf("no file %s", target)
	}
	if file := pages[target]; fragment != "" && file != nil && path.Ext(target) == ".md" && !anchors(file)[fragment] {
		return fmt.Sprintf("no heading #%s in %s", fragment, target)
	}
	return ""
}

// anchors returns the fragments by which a page's headings are reached.
func anchors(f *File) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(f.Src), -1) {
		found[strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

var (
	namedTest   = regexp.MustCompile("`(Test[A-Z]\\w*|test_\\w+)`")
	definedTest = regexp.MustCompile(`(?m)^(?:func|def) (Test[A-Z]\w*|test_\w+)\(`)
)

// CheckNamedTests demands that each test that a Markdown page names as evidence is there.
func CheckNamedTests(t *Tree) []Finding {
	defined := map[string]bool{}
	for _, f := range t.Files {
		if path.Ext(f.Path) == ".md" {
			continue
		}
		for _, m := range definedTest.FindAllSubmatch(f.Src, -1) {
			defined[string(m[1])] = true
		}
	}
	var found []Finding
	for _, f := range t.Files {
		if path.Ext(f.Path) != ".md" {
			continue
		}
		for i, line := range bytes.Split(f.Src, []byte("\n")) {
			for _, m := range namedTest.FindAllSubmatch(line, -1) {
				if !defined[string(m[1])] {
					found = append(found, Finding{f.Path, i + 1, "test", fmt.Sprintf("no test %s", m[1]), "name one that is there, or say that there is none"})
				}
			}
		}
	}
	return found
}

const decisionIndex = "docs/adr/README.md"

var (
	decisionPage = regexp.MustCompile(`^docs/adr/(\d{4})-[a-z0-9-]+\.md$`)
	decisionHead = regexp.MustCompile(`^# (\d+)\. (.+)\n\n(Accepted|Superseded by \d+), (\d{4}-\d\d-\d\d)\.\n`)
	namedInCode  = regexp.MustCompile(`ADRs? (\d+(?:(?:, | and )\d+)*)`)
	number       = regexp.MustCompile(`\d+`)
)

// CheckDecisions demands of every decision record a heading with its number, its
// status and its date, the same row in the index, and code that names it.
func CheckDecisions(t *Tree) []Finding {
	const rule = "decision"
	index := ""
	named := map[string]bool{}
	for _, f := range t.Files {
		if f.Path == decisionIndex {
			index = string(f.Src)
		}
		if f.AST == nil || f.Dir() == "tools/arch" {
			continue
		}
		for _, m := range namedInCode.FindAllSubmatch(f.Src, -1) {
			for _, n := range number.FindAll(m[1], -1) {
				named[string(n)] = true
			}
		}
	}
	var found []Finding
	for _, f := range t.Files {
		page := decisionPage.FindStringSubmatch(f.Path)
		if page == nil {
			continue
		}
		head := decisionHead.FindStringSubmatch(string(f.Src))
		if head == nil || fmt.Sprintf("%04s", head[1]) != page[1] {
			found = append(found, Finding{f.Path, 1, rule, "no number, title, status and date at the top", `begin it with "# N. Title", then "Accepted, YYYY-MM-DD."`})
			continue
		}
		row := fmt.Sprintf("| [%s](%s) | %s | %s | %s |", head[1], path.Base(f.Path), head[2], strings.ToLower(head[3]), head[4])
		if !strings.Contains(index, row) {
			found = append(found, Finding{f.Path, 1, rule, "not in the index", "add to " + decisionIndex + ": " + row})
		}
		if !named[head[1]] {
			found = append(found, Finding{f.Path, 1, rule, "no code names it", "name ADR " + head[1] + " where it is embodied"})
		}
	}
	return found
}

const storyPage = "docs/stories.md"

// storyFolders are the sections of the page about stories, and where each one's scripts lie.
func storyFolders() map[string]string {
	return map[string]string{"Coordinator": "coordinator/testdata/", "Agent": "agent/testdata/", "Run": "agent/run/testdata/", "Policies": "allocator/policy/testdata/"}
}

var storyRow = regexp.MustCompile("^\\| `([a-z-]+)` \\| `([a-z-]+)")

// CheckStories demands that the page about stories has a row for each word that
// a line of a script begins with, that a script uses each word of the page, and
// that an example begins with its word.
func CheckStories(t *Tree) []Finding {
	const rule = "story"
	used := map[string]map[string]bool{}
	for section, folder := range storyFolders() {
		used[section] = t.storyWords(folder)
	}
	var found []Finding
	section := ""
	rows := map[string]bool{}
	for _, f := range t.Files {
		if f.Path != storyPage {
			continue
		}
		for i, line := range strings.Split(string(f.Src), "\n") {
			if name, ok := strings.CutPrefix(line, "## "); ok {
				section = name
			}
			row := storyRow.FindStringSubmatch(line)
			if row == nil {
				continue
			}
			rows[section+" "+row[1]] = true
			if row[1] != row[2] {
				found = append(found, Finding{f.Path, i + 1, rule, fmt.Sprintf("the example of %s begins with %s", row[1], row[2]), "begin it with its word"})
			}
			if !used[section][row[1]] {
				found = append(found, Finding{f.Path, i + 1, rule, fmt.Sprintf("no script of section %q uses %s", section, row[1]), "delete the row, or write the story"})
			}
		}
	}
	for section, words := range used {
		for word := range words {
			if !rows[section+" "+word] {
				found = append(found, Finding{storyPage, 1, rule, fmt.Sprintf("section %q has no row for %s", section, word), "add one with an example"})
			}
		}
	}
	return found
}

// storyWords returns the words with which the lines of a folder's scripts begin.
func (t *Tree) storyWords(folder string) map[string]bool {
	words := map[string]bool{}
	for _, f := range t.Files {
		if !strings.HasPrefix(f.Path, folder) || path.Ext(f.Path) != ".txt" {
			continue
		}
		for line := range strings.Lines(string(f.Src)) {
			if word := strings.Fields(line); len(word) > 0 && word[0] != "#" && !strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "#") {
				words[word[0]] = true
			}
		}
	}
	return words
}
