package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	policyPackage = "allocator/policy"
	// policyTable lists the policies, each by what makes it.
	policyTable = policyPackage + "/table.go"
	// policyStories has a story for each policy, NAME.txt.
	policyStories = policyPackage + "/testdata"
	// policyAndKey names a policy, and what a job has.
	policyAndKey = "priority"
)

// CheckPolicies holds that a policy is its file, its story and its line in the table: production outside of
// package policy names none, so that none has to be told of a new one, and in it none is made but in the table. Tests, the
// laboratory, which compares policies, and the commands that run it name those that they are about.
func CheckPolicies(t *Tree) []Finding {
	names, made := map[string]bool{policyAndKey: false}, map[string]bool{}
	for _, f := range t.Files {
		if f.Dir() == policyStories {
			if name := strings.TrimSuffix(path.Base(f.Path), ".txt"); name != policyAndKey {
				names[name] = true
			}
		}
		if f.Path == policyTable && f.AST != nil {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if x, ok := n.(*ast.CompositeLit); ok && x.Type == nil && len(x.Elts) > 0 {
					made[maker(x.Elts[0])] = true
				}
				return true
			})
		}
	}
	delete(made, "")
	var found []Finding
	for f := range t.goFiles {
		if f.Test() || f.Path == policyTable || inLaboratory(f.Dir()) || usesLaboratory(f) {
			continue
		}
		own := ownPolicies(f, made)
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.BasicLit:
				if name, err := strconv.Unquote(x.Value); x.Kind == token.STRING && err == nil && names[name] && f.Dir() != policyPackage {
					found = append(found, t.at(x.Pos(), "policy", fmt.Sprintf("%s names the policy %s", f.Dir(), name),
						"ask a policy what it is by a method that it may have, as allocator.Prompt, or use policy.Names"))
				}
			case *ast.CompositeLit, *ast.CallExpr:
				if name := maker(x.(ast.Expr)); f.Dir() == policyPackage && made[name] && !own[name] { //nolint:forcetypeassert // both are expressions
					found = append(found, t.at(x.Pos(), "policy", fmt.Sprintf("%s makes the policy %s", f.Path, name),
						"let "+policyTable+" alone make policies, and share functions between them"))
				}
			}
			return true
		})
	}
	return found
}

// usesLaboratory reports whether a file imports a part of the laboratory.
func usesLaboratory(f *File) bool {
	return slices.ContainsFunc(f.AST.Imports, func(s *ast.ImportSpec) bool {
		name, err := strconv.Unquote(s.Path.Value)
		own, ok := strings.CutPrefix(name, Module+"/")
		return err == nil && ok && inLaboratory(own)
	})
}

// maker is the name of the type or the function that makes a value, or "".
func maker(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.CompositeLit:
		if name, ok := x.Type.(*ast.Ident); ok {
			return name.Name
		}
	case *ast.CallExpr:
		if name, ok := x.Fun.(*ast.Ident); ok {
			return name.Name
		}
	}
	return ""
}

// ownPolicies are the makers that a file declares.
func ownPolicies(f *File, made map[string]bool) map[string]bool {
	own := map[string]bool{}
	for _, d := range f.AST.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			own[d.Name.Name] = d.Recv == nil && made[d.Name.Name]
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					own[s.Name.Name] = made[s.Name.Name]
				}
			}
		}
	}
	return own
}
