package arch_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// attacks is how many there are to try.
const attacks = 35

// Each attack has its row in docs/security.md, and each test that a row names is
// there: `make attacks` runs what the table says.
func TestTheTableOfAttacks(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	there := testsBelow(t, "../..")
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|.*$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != attacks {
		t.Errorf("%d rows, want %d", len(rows), attacks)
	}
	for i, row := range rows {
		if row[1] != fmt.Sprint(i+1) {
			t.Errorf("row %d has the number %s", i+1, row[1])
		}
		cells := strings.Split(row[0], "|")
		dir := ""
		for _, word := range regexp.MustCompile("`[a-z0-9]+`|Test\\w+").FindAllString(cells[3], -1) {
			if !strings.HasPrefix(word, "Test") {
				dir = strings.Trim(word, "`")
				continue
			}
			if !there[dir+"."+word] {
				t.Errorf("attack %s: package %s has no test %s", row[1], dir, word)
			}
		}
	}
}

// testsBelow lists all tests by the names of their directories.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			found[filepath.Base(filepath.Dir(path))+"."+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
