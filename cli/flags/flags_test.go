package flags

import "testing"

// The help shows the flags of a command in the groups and the order in which they were arranged, those in no group last, and
// no group of which all flags are hidden or missing.
func TestFlagsAreShownInGroups(t *testing.T) {
	t.Parallel()
	f := New("x")
	for _, name := range []string{"alone", "deadline", "max", "min", "secret"} {
		f.Int(name, 0, "the "+name)
	}
	if err := f.MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	Arrange(f, []Group{
		{"Size", []string{"min", "max", "missing"}}, {"Secret", []string{"secret"}}, {"None", []string{"none"}}, {"Deadline", []string{"deadline"}},
	})
	const want = `Flags:

Size:
      --min int   the min
      --max int   the max

Deadline:
      --deadline int   the deadline

Other:
      --alone int   the alone
`
	if got := Usages(f); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
