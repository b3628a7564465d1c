package arch_test

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/tools/arch"
)

// checks is every rule of the house.
var checks = map[string]func(*arch.Tree) []arch.Finding{
	"imports":       arch.CheckImports,
	"reach":         arch.CheckReach,
	"state":         arch.CheckState,
	"sizes":         arch.CheckSizes,
	"keys":          arch.CheckKeys,
	"package docs":  arch.CheckPackageDocs,
	"names":         arch.CheckNames,
	"strays":        arch.CheckStrays,
	"machine paths": arch.CheckMachinePaths,
	"words":         arch.CheckWords,
	"scripts":       arch.CheckScripts,
	"front":         arch.CheckFront,
	"links":         arch.CheckLinks,
	"named tests":   arch.CheckNamedTests,
	"decisions":     arch.CheckDecisions,
	"laboratory":    arch.CheckLaboratory,
	"policies":      arch.CheckPolicies,
	"command":       arch.CheckCommand,
	"stories":       arch.CheckStories,
	"files":         arch.CheckFiles,
	"predicates":    arch.CheckPredicates,
	"prose":         arch.CheckProse,
}

// weighed are rules whose findings fail nothing: -v shows them.
var weighed = map[string]func(*arch.Tree) []arch.Finding{
	"functions": arch.WeighSizes,
	"objects":   arch.WeighObjects,
}

func TestHouse(t *testing.T) {
	tree, err := arch.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			for _, f := range check(tree) {
				t.Error(f)
			}
		})
	}
	for name, weigh := range weighed {
		t.Run(name, func(t *testing.T) {
			for _, f := range weigh(tree) {
				t.Log("a warning:", f)
			}
		})
	}
}

// A table whose rows import only from rows above is free of cycles, and of
// packages that were renamed in one place.
func TestTableReadsDownwards(t *testing.T) {
	above := map[string]bool{}
	for _, row := range arch.Rows() {
		if above[row.Path] {
			t.Errorf("%s is in the table twice", row.Path)
		}
		for name := range strings.FieldsSeq(row.Imports) {
			if !above[name] {
				t.Errorf("%s may import %s, which is not above it", row.Path, name)
			}
		}
		if row.Why == "" {
			t.Errorf("%s has no reason", row.Path)
		}
		above[row.Path] = true
	}
}

// What pure code imports of ours must be pure as well, or it is not pure.
func TestPureImportsPure(t *testing.T) {
	grade := map[string]arch.Grade{}
	for _, row := range arch.Rows() {
		grade[row.Path] = row.Grade
	}
	for _, row := range arch.Rows() {
		for name := range strings.FieldsSeq(row.Imports) {
			if grade[name] > row.Grade && row.Grade <= arch.Virtual {
				t.Errorf("%s may import %s, which reaches further than it does", row.Path, name)
			}
		}
	}
}

func TestLibrariesBelongToPackagesOfTheTable(t *testing.T) {
	known := map[string]bool{}
	for _, row := range arch.Rows() {
		known[row.Path] = true
	}
	for _, lib := range arch.Libraries() {
		for name := range strings.FieldsSeq(lib.Owners + " " + lib.Tests) {
			if !known[name] {
				t.Errorf("%s belongs to %s, which is not in the table", lib.Prefix, name)
			}
		}
		if lib.Why == "" {
			t.Errorf("%s has no reason", lib.Prefix)
		}
	}
}

// `go test ./tools/arch -run TestLines -v` prints the counts.
func TestLines(t *testing.T) {
	tree, err := arch.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := arch.CountLines(tree)
	t.Logf("production %d, laboratory %d, cmd/bellows %d, tools %d, tests %d", n.Production, n.Laboratory, n.Command, n.Tools, n.Tests)
	if n.Production == 0 || n.Laboratory == 0 || n.Command == 0 || n.Tools == 0 || n.Tests == 0 {
		t.Errorf("a part of the tree has no lines: %+v", n)
	}
}
