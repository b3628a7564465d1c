package yamltext

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestReadKeepsLinesAndKinds(t *testing.T) {
	t.Parallel()
	v, err := Read([]byte("a: 1\nb: \"2\"\nc: [x, y]\nd:\n  e: f\ng:\nh: &l [p]\ni: *l\nj: [*l]\na: 3\n"))
	if err != nil || v.Kind != Map {
		t.Fatalf("%+v, %v", v, err)
	}
	var got []string
	for _, e := range v.Entries() {
		got = append(got, e.Key)
		switch e.Key {
		case "a":
			if e.Value.Kind != Text || e.Value.Quoted || e.Line != e.Value.Line {
				t.Errorf("a is %+v in line %d", e.Value, e.Line)
			}
		case "b":
			if e.Value.Text != "2" || !e.Value.Quoted || e.Line != 2 {
				t.Errorf("b is %+v in line %d", e.Value, e.Line)
			}
		case "c", "h", "i": // an alias of a key is what it names
			if texts, err := e.Value.Texts(); err != nil || len(texts) == 0 {
				t.Errorf("%s is %q, %v", e.Key, texts, err)
			}
		case "d":
			if in := e.Value.Entries(); len(in) != 1 || in[0].Key != "e" || in[0].Line != 5 {
				t.Errorf("d has %+v", in)
			}
		case "g":
			if e.Value.Kind != Null {
				t.Errorf("g is %+v", e.Value)
			}
		case "j":
			if _, err := e.Value.Texts(); err == nil || !strings.Contains(err.Error(), "item 1: use a text") {
				t.Errorf("an alias within a list: %v", err)
			}
		}
	}
	if want := []string{"a", "b", "c", "d", "g", "h", "i", "j", "a"}; !slices.Equal(got, want) {
		t.Errorf("keys %q", got)
	}
}

func TestReadRefusesWhatIsNotOneDocument(t *testing.T) {
	t.Parallel()
	if _, err := Read(nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("empty: %v", err)
	}
	if _, err := Read([]byte("a: 1\n---\nb: 2\n")); !errors.Is(err, ErrSeveral) {
		t.Errorf("two: %v", err)
	}
	_, err := Read([]byte("a:\n\t- 1\n"))
	if err == nil || !strings.HasPrefix(Fault("job.yaml", err).Error(), "job.yaml:") || !strings.Contains(Fault("job.yaml", err).Error(), "spaces, not tabs") {
		t.Errorf("a tab: %v", err)
	}
}

// Ten aliases of ten aliases …: each entry costs what it names, not what that names in turn.
func TestAliasesDoNotMultiply(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 40; i++ {
		before, name := string(rune('A'+i-1)), string(rune('A'+i))
		if i == 1 {
			before = "a0"
		}
		b.WriteString(name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+before+",", 10), ",") + "]\n")
		if i > 24 {
			break
		}
	}
	v, err := Read([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range v.Entries() {
		if n := len(e.Value.Items()); n != 10 {
			t.Errorf("%s has %d items", e.Key, n)
		}
	}
}

func TestBool(t *testing.T) {
	t.Parallel()
	v, err := Read([]byte("a: true\nb: maybe\nc: [true]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false} {
		if got, err := v.Entries()[i].Value.Bool(); got != want || (err == nil) != want {
			t.Errorf("entry %d is %t, %v", i, got, err)
		}
	}
}

func TestFromJSONKeepsOrderAndQuotes(t *testing.T) {
	t.Parallel()
	got, err := FromJSON(`{"b":[1,"x"],"a":"y\tz"}`, func(r rune) bool { return r == '\t' })
	if want := "b:\n  - 1\n  - x\na: \"y\\tz\"\n"; err != nil || got != want {
		t.Errorf("%q, want %q: %v", got, want, err)
	}
}
