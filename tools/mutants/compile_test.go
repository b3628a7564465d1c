package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A mutant that does not compile proves nothing, and the run that would say so takes an hour.
func TestMutantsCompile(t *testing.T) {
	var production, tests []Mutant
	for _, m := range All() {
		switch {
		case strings.HasSuffix(m.File, "_test.go"):
			tests = append(tests, m)
		case strings.HasSuffix(m.File, ".go"):
			production = append(production, m)
		}
	}
	if len(production) == 0 || len(tests) == 0 {
		t.Fatalf("%d mutants of production code and %d of tests", len(production), len(tests))
	}
	for _, group := range []struct {
		mutants []Mutant
		flags   []string
	}{{production, nil}, {tests, []string{"-test"}}} {
		c := newChecker(t, group.mutants, group.flags)
		for _, m := range group.mutants {
			if err := c.check(m); err != nil {
				t.Errorf("mutant %s does not compile: %v", m.Name, err)
			}
		}
	}
}

// A compiled package is what go list says of one.
type compiled struct {
	ImportPath      string // with the package that it was compiled to test, if it was
	ForTest         string
	Dir             string
	Export          string // the file of its export data
	CompiledGoFiles []string
}

// A checker has what the packages of mutants import.
type checker struct {
	packages  map[string]*compiled      // by import path
	importers map[string]types.Importer // by the package whose tests things are compiled for
	fset      *token.FileSet
	parsed    map[string]*ast.File // by path
}

func newChecker(t *testing.T, mutants []Mutant, flags []string) *checker {
	t.Helper()
	args := append([]string{"list", "-export", "-compiled", "-deps", "-json=ImportPath,ForTest,Dir,Export,CompiledGoFiles"}, flags...)
	var dirs []string
	for _, m := range mutants {
		dirs = append(dirs, "./"+filepath.Dir(m.File))
	}
	slices.Sort(dirs)
	cmd := exec.Command("go", append(args, slices.Compact(dirs)...)...)
	cmd.Dir, cmd.Stderr = root, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{packages: map[string]*compiled{}, importers: map[string]types.Importer{}, fset: token.NewFileSet(), parsed: map[string]*ast.File{}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(compiled)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return c
		} else if err != nil {
			t.Fatal(err)
		}
		for i, name := range p.CompiledGoFiles {
			if !filepath.IsAbs(name) {
				p.CompiledGoFiles[i] = filepath.Join(p.Dir, name)
			}
		}
		c.packages[p.ImportPath] = p
	}
}

// check checks the types of the package that an edited file is in.
func (c *checker) check(m Mutant) error {
	path, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return err
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	edited, err := m.Apply(src)
	if err != nil {
		return err
	}
	p := c.packageOf(path)
	if p == nil {
		return fmt.Errorf("no package has %s", path)
	}
	var files []*ast.File
	for _, name := range p.CompiledGoFiles {
		read := func() (*ast.File, error) { return c.parse(name) }
		if name == path {
			read = func() (*ast.File, error) { return parser.ParseFile(c.fset, name, edited, 0) }
		}
		f, errRead := read()
		if errRead != nil {
			return errRead
		}
		files = append(files, f)
	}
	_, err = (&types.Config{Importer: c.importer(p)}).Check(p.ImportPath, c.fset, files, nil)
	return err
}

// packageOf is the package that has a file: the one without tests, where there are both.
func (c *checker) packageOf(path string) (found *compiled) {
	for _, p := range c.packages {
		if slices.Contains(p.CompiledGoFiles, path) && (found == nil || p.ForTest == "") {
			found = p
		}
	}
	return found
}

func (c *checker) parse(path string) (*ast.File, error) {
	if f := c.parsed[path]; f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(c.fset, path, nil, 0)
	if err == nil {
		c.parsed[path] = f
	}
	return f, err
}

// importer reads what a package imports: what was compiled for the same tests, where there is such a thing.
func (c *checker) importer(p *compiled) types.Importer {
	i := c.importers[p.ForTest]
	if i == nil {
		i = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
			found := cmp.Or(c.packages[path+" ["+p.ForTest+".test]"], c.packages[path])
			if found == nil {
				return nil, fmt.Errorf("go list does not know %s", path)
			}
			return os.Open(found.Export)
		})
		c.importers[p.ForTest] = i
	}
	return i
}
