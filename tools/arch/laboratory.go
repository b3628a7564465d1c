package arch

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// inLaboratory reports whether a package is a part of the laboratory: readers of
// traces, simulations, references and experiments.
func inLaboratory(dir string) bool { return dir == "lab" || strings.HasPrefix(dir, "lab/") }

// foreignRules are the conventions of other simulators; the simulator's core and
// the rules themselves know none of them.
const foreignRules = "lab/rules/"

// testbed is the part of the laboratory that tests of production may use: a node in
// memory, on which they run the decisions of coordinator and agent.
const testbed = "lab/machine"

// labCommand is the program that has all of the laboratory.
const labCommand = "cmd/bellows-lab"

// CheckLaboratory holds production apart from the laboratory, tests included but
// for the testbed, whatever the table of packages says; the program of users apart from all of the laboratory but
// the part for planning; and the simulator's core apart from the conventions of other simulators.
func CheckLaboratory(t *Tree) []Finding {
	var found []Finding
	for f := range t.goFiles {
		for _, spec := range f.AST.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				panic(fmt.Sprintf("import %s survived the parser: %v", spec.Path.Value, err))
			}
			own, ok := strings.CutPrefix(name, Module+"/")
			if !ok || !inLaboratory(own) || f.Test() && own == testbed {
				continue
			}
			user := f.Dir() == command || slices.Contains(strings.Fields(planning), f.Dir())
			core := f.Dir() == "lab/sim" || strings.HasPrefix(f.Dir(), foreignRules)
			switch {
			case !f.Test() && user && !slices.Contains(strings.Fields(planning), own):
				found = append(found, t.at(spec.Pos(), "laboratory", fmt.Sprintf("%s imports %s", f.Dir(), own),
					"the program of users would have what only bellows-lab needs: have that hand it over"))
			case !inLaboratory(f.Dir()) && f.Dir() != command && f.Dir() != labCommand:
				found = append(found, t.at(spec.Pos(), "laboratory", fmt.Sprintf("%s imports %s", f.Dir(), own),
					"production does not depend on the laboratory: move what both need to a package of production"))
			case core && strings.HasPrefix(own, foreignRules) && f.Dir() != own:
				found = append(found, t.at(spec.Pos(), "laboratory", fmt.Sprintf("%s imports %s", f.Dir(), own),
					"use sim.Rules: only what sets up a run knows the conventions of other simulators"))
			}
		}
	}
	return found
}

// Lines counts lines of Go by the part of the tree that they belong to.
type Lines struct {
	Production int // all that is in no other part
	Command    int // cmd/bellows and cmd/bellows-lab
	Laboratory int // below lab
	Tools      int // below tools, which hold the others to their rules and run the tests
	Tests      int // files of tests, in all parts, and e2e
}

// CountLines counts the lines of all Go files.
func CountLines(t *Tree) Lines {
	var n Lines
	for f := range t.goFiles {
		lines := bytes.Count(f.Src, []byte("\n"))
		switch dir := f.Dir(); {
		case f.Test() || dir == "e2e" || strings.HasSuffix(dir, "test"):
			n.Tests += lines
		case inLaboratory(dir):
			n.Laboratory += lines
		case dir == command || dir == labCommand:
			n.Command += lines
		case strings.HasPrefix(dir, "tools/"):
			n.Tools += lines
		default:
			n.Production += lines
		}
	}
	return n
}
