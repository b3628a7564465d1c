package reason_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bellows-ml/bellows/record/reason"
)

func TestText(t *testing.T) {
	failed := reason.New(reason.RankFailed, "rank", 3, "node", "n1", "said", "exit status 1")
	for want, r := range map[string]reason.Reason{
		"": nil,
		"rank 3 failed on n1: exit status 1; restart 1 of 3":                nilReason().And(failed, reason.New(reason.Restart, "n", 1, "most", 3)),
		"start with 1 worker":                                               reason.Of(reason.New(reason.StartWith, "n", 1)),
		"start with 4 workers":                                              reason.Of(reason.New(reason.StartWith, "n", 4)),
		"restart after: rank 3 failed on n1: exit status 1":                 reason.Of(reason.New(reason.RestartOf).About(reason.Of(failed))),
		"while halting, rank 3 failed on n1: exit status 1":                 reason.Of(reason.New(reason.WhileHalting).About(reason.Of(failed))),
		"grow from 1 to 2 workers":                                          reason.Of(reason.New(reason.Grow, "from", 1, "to", 2)),
		"shrink from 2 to 1 worker: it has a {brace} in it; and so does it": reason.Of(reason.New(reason.Shrink, "from", 2, "to", 1).About(reason.Said("it has a {brace} in it; and so does it"))),
		"of-a-later-version":                                                reason.Of(reason.New("of-a-later-version", "x", 1)),
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func nilReason() reason.Reason { return nil }

// What is looked for is found by its code, whatever an argument says.
func TestDecisionsLookAtCodes(t *testing.T) {
	again := reason.New(reason.StartsAgain)
	said := reason.Said("accepted; the job starts again by itself")
	if said.Has(reason.Accepted) || said.Has(reason.StartsAgain) || len(said.Until(reason.StartsAgain)) != 1 {
		t.Errorf("the words of %v are taken for codes", said)
	}
	r := said.And(again, reason.New(reason.TryOf, "n", 1, "most", 60))
	if !r.Has(reason.StartsAgain) || !r.Until(reason.StartsAgain).Equal(said) || !r.Begins(said) || said.Begins(r) || r.Arg(reason.TryOf, "most") != "60" {
		t.Errorf("%v", r)
	}
	if r.Includes(reason.New(reason.TryOf, "n", 2, "most", 60)) || !r.Includes(reason.New(reason.TryOf, "n", 1, "most", 60)) {
		t.Errorf("%v: a clause is its arguments, too", r)
	}
	if !r.Known() || r.And(reason.New("later").About(nil)).Known() || reason.Of(again.About(reason.Of(reason.New("later")))).Known() {
		t.Error("a code of a later version is known")
	}
}

// And makes a reason of its own: records that were read from the same value share what it was made of.
func TestAndSharesNothing(t *testing.T) {
	r := make(reason.Reason, 1, 8)
	r[0] = reason.New(reason.Accepted)
	a, b := r.And(reason.New(reason.Undecided)), r.And(reason.New(reason.NoPlan))
	if !a.Has(reason.Undecided) || !b.Has(reason.NoPlan) {
		t.Errorf("%v, %v", a, b)
	}
}

// A cut reason keeps to the bound whatever it was made of, keeps its first clauses, says that it was cut, and is cut
// once: what was written is compared with what would be.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	codes := []reason.Code{reason.Text, reason.RankFailed, reason.Restart, reason.NodesLost, reason.RestartOf, reason.Grow, reason.MayStillRun, reason.Overtaken, "later"}
	var some func(depth int) reason.Reason
	some = func(depth int) (r reason.Reason) {
		for range rng.IntN(5) {
			c := reason.New(codes[rng.IntN(len(codes))], "said", strings.Repeat("é", rng.IntN(600)), "node", strings.Repeat("n", rng.IntN(70)), "nodes", "n1", "from", 1, "to", rng.IntN(9))
			if depth > 0 && rng.IntN(2) == 0 {
				c = c.About(some(depth - 1))
			}
			r = append(r, c)
		}
		return r
	}
	cut := 0
	for range 3000 {
		r, most := some(rng.IntN(6)), 64+rng.IntN(1200)
		got := r.Cut(most)
		text := got.String()
		if len(text) > most || !utf8.ValidString(text) {
			t.Fatalf("%d bytes of at most %d: %q", len(text), most, text)
		}
		if again := got.Cut(most); !again.Equal(got) {
			t.Fatalf("cut again: %q, before %q", again, got)
		}
		if b, err := json.Marshal(got); err != nil || len(b) > 6*most+4096 {
			t.Fatalf("%d bytes of JSON for %d of text, %v", len(b), most, err)
		}
		if len(r.String()) > most {
			cut++
			if !strings.Contains(text, "… (cut)") {
				t.Fatalf("%q does not say that it was cut from %q", text, r)
			}
		}
	}
	if cut < 500 {
		t.Errorf("%d of 3000 were cut: that shows little", cut)
	}
	long := reason.Of(reason.New(reason.NodeLost, "node", "n1"), reason.New(reason.NoRoom, "node", "n1", "said", strings.Repeat("x", 2000)), reason.New(reason.NoPlan))
	if got := long.Cut(200); !got.Has(reason.NodeLost) || !got.Has(reason.NoRoom) || got.Has(reason.NoPlan) {
		t.Errorf("%v", got)
	}
	deep := reason.Of(reason.New(reason.Accepted))
	for range 1000 {
		deep = reason.Of(reason.New(reason.RestartOf).About(deep))
	}
	if b, err := json.Marshal(deep.Cut(1 << 10)); err != nil || len(b) > 4096 {
		t.Errorf("a reason of a thousand reasons takes %d bytes, %v", len(b), err)
	}
}

// Wherever a clause is made, it has the arguments that its text names, and no others.
func TestClausesHaveTheirArguments(t *testing.T) {
	texts := constants(t)
	made := map[string]int{}
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || types.ExprString(call.Fun) != "reason.New" {
				return true
			}
			code, ok := call.Args[0].(*ast.SelectorExpr)
			if !ok {
				return true // one of several, chosen just before
			}
			made[code.Sel.Name]++
			var names []string
			for i := 1; i < len(call.Args); i += 2 {
				name, err := strconv.Unquote(call.Args[i].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			slices.Sort(names)
			if want := arguments(texts[code.Sel.Name]); !slices.Equal(names, want) {
				t.Errorf("%s: reason.New(reason.%s) has the arguments %q, its text %q", path, code.Sel.Name, names, want)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(made) < 50 {
		t.Errorf("%d codes are made somewhere: that shows little", len(made))
	}
}

var inBraces = regexp.MustCompile(`\{(\w+)( \w+)?\}`)

// arguments are those that a text names.
func arguments(text string) (names []string) {
	for _, m := range inBraces.FindAllStringSubmatch(text, -1) {
		if m[1] != "of" && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

// constants are the texts by the names of their codes. Each code has one, and no two are written alike.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "text.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := func(e ast.Expr) string {
		var b strings.Builder
		ast.Inspect(e, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok {
				s, err := strconv.Unquote(l.Value)
				if err != nil {
					t.Fatal(err)
				}
				b.WriteString(s)
			}
			return true
		})
		return b.String()
	}
	codes, written, out := map[string]bool{}, map[string]string{}, map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if id, ok := n.Type.(*ast.Ident); ok && id.Name == "Code" {
				name, value := n.Names[0].Name, text(n.Values[0])
				if other, twice := written[value]; twice {
					t.Errorf("%s and %s are both written %q", name, other, value)
				}
				codes[name], written[value] = true, name
			}
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				out[id.Name] = text(n.Value)
			}
		}
		return true
	})
	for name := range codes {
		if _, ok := out[name]; !ok {
			t.Errorf("%s has no text", name)
		}
	}
	return out
}
