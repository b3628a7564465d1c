package main

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bellows-ml/bellows/cluster"
)

// In no form does a result hold what could disturb a terminal, and in each it means the same.
func TestResultsAreSafeToShow(t *testing.T) {
	t.Parallel()
	said := map[string]string{"why": "\u202erm -rf\u2066 \x1b[2J\x7f\u009b a: \u061c\u200e\ttab", "good": "é 字 \\u202e"}
	for _, f := range []format{asJSON, asYAML} {
		var out strings.Builder
		if err := f.write(&out, said, nil); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && cluster.Disturbs(r) }); i >= 0 {
			t.Errorf("%s: %q", f, out.String())
		}
		got := map[string]string{}
		read := json.Unmarshal
		if f == asYAML {
			read = func(b []byte, v any) error { return yaml.Unmarshal(b, v) }
		}
		if err := read([]byte(out.String()), &got); err != nil || got["why"] != said["why"] || got["good"] != said["good"] {
			t.Errorf("%s: %v, %q from %s", f, err, got, out.String())
		}
	}
	for _, text := range []string{plain(said["why"]), oneLine(said["why"])} {
		if strings.IndexFunc(text, cluster.Disturbs) >= 0 {
			t.Errorf("%q", text)
		}
	}
}
