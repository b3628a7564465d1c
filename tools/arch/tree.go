package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the module's path, before every import of our own.
const Module = "github.com/bellows-ml/bellows"

// A Tree is the sources of the repository as they lie on disk, committed or
// not: what the compiler would see.
type Tree struct {
	Files []*File // sorted by path
	fset  *token.FileSet
}

// A File is one file of the tree. AST is nil for what is not Go, and for Go
// below a testdata directory, which is a test's sample.
type File struct {
	Path string // slash-separated, relative to the root
	Src  []byte
	AST  *ast.File
}

// Dir is the path of the package that the file belongs to.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Test reports whether the file is compiled only for tests.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Load reads every file below root. It skips version control, hidden folders
// other than .ci and .github, and what make builds or installs.
func Load(root string) (*Tree, error) {
	sources := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(filepath.ToSlash(rel)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || d.Name() == ".git" { // a file where the tree is a worktree
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sources[filepath.ToSlash(rel)] = string(src)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree at %s: %w", root, err)
	}
	return Parse(sources)
}

func skipped(dir string) bool {
	switch dir {
	case ".", ".ci", ".github":
		return false
	case "bin", "dist", "vendor":
		return true
	default:
		base := path.Base(dir)
		return strings.HasPrefix(base, ".") || base == "__pycache__" || base == "node_modules"
	}
}

// Parse makes a tree of sources by path. Samples of what a rule forbids come
// in this way.
func Parse(sources map[string]string) (*Tree, error) {
	t := &Tree{fset: token.NewFileSet()}
	for name, src := range sources {
		f := &File{Path: name, Src: []byte(src)}
		if strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/") {
			parsed, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("parse: %w", err)
			}
			f.AST = parsed
		}
		t.Files = append(t.Files, f)
	}
	slices.SortFunc(t.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	return t, nil
}

// goFiles calls yield for each parsed Go file.
func (t *Tree) goFiles(yield func(*File) bool) {
	for _, f := range t.Files {
		if f.AST != nil && !yield(f) {
			return
		}
	}
}

// packages groups the Go files by directory.
func (t *Tree) packages() map[string][]*File {
	dirs := map[string][]*File{}
	for f := range t.goFiles {
		dirs[f.Dir()] = append(dirs[f.Dir()], f)
	}
	return dirs
}

// at makes a finding at a position in a Go file.
func (t *Tree) at(pos token.Pos, rule, problem, remedy string) Finding {
	p := t.fset.Position(pos)
	return Finding{File: p.Filename, Line: p.Line, Rule: rule, Problem: problem, Remedy: remedy}
}

// lines counts the lines of a file, the last one with or without its newline.
func (f *File) lines() int {
	n := bytes.Count(f.Src, []byte("\n"))
	if len(f.Src) > 0 && f.Src[len(f.Src)-1] != '\n' {
		n++
	}
	return n
}

// A Finding is one breach of one rule.
type Finding struct {
	File    string
	Line    int
	Rule    string
	Problem string
	Remedy  string
}

// String puts the place first, so that editors can jump to it.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s; %s", f.File, f.Line, f.Rule, f.Problem, f.Remedy)
}
