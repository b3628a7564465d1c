package output

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/yamltext"
)

// In no form does a result hold what could disturb a terminal, and in each it means the same.
func TestResultsAreSafeToShow(t *testing.T) {
	t.Parallel()
	said := map[string]string{"why": "\u202erm -rf\u2066 \x1b[2J\x7f\u009b a: \u061c\u200e\ttab", "good": "é 字 \\u202e"}
	for _, f := range []Format{AsJSON, AsYAML} {
		var out strings.Builder
		if err := f.Write(&out, said, nil); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && cluster.Disturbs(r) }); i >= 0 {
			t.Errorf("%s: %q", f, out.String())
		}
		got := map[string]string{}
		read := func(b []byte) error { return json.Unmarshal(b, &got) }
		if f == AsYAML {
			read = func(b []byte) error {
				v, err := yamltext.Read(b)
				for _, e := range v.Entries() {
					got[e.Key] = e.Value.Text
				}
				return err
			}
		}
		if err := read([]byte(out.String())); err != nil || got["why"] != said["why"] || got["good"] != said["good"] {
			t.Errorf("%s: %v, %q from %s", f, err, got, out.String())
		}
	}
	for _, text := range []string{Plain(said["why"]), OneLine(said["why"])} {
		if strings.IndexFunc(text, cluster.Disturbs) >= 0 {
			t.Errorf("%q", text)
		}
	}
}
