package cluster

import (
	"strings"
	"testing"
)

func TestCompileProgress(t *testing.T) {
	for _, good := range []string{
		`step (\d+)`, `step=(?P<step>\d+).*loss=(?P<loss>\S+)`, `(?P<samples>\d+) samples, (?:step|iter) (?<step>\d+)`, `(a*)*b`,
	} {
		if _, err := CompileProgress(good); err != nil {
			t.Error(err)
		}
	}
	for bad, want := range map[string]string{
		`step (\d+`:                             `progress 'step (\d+': missing closing )`,
		`step \d+`:                              `it has no group: put the step's digits into parentheses`,
		`(?=x)(\d+)`:                            `look-around and back-references are not known`,
		`(\d+)\1`:                               `look-around and back-references are not known`,
		`(?P<epoch>\d+)`:                        `group "epoch" is not known: name groups step, loss, samples`,
		`(?P<loss>\d+)`:                         `no group is named step`,
		`(?P<step>\d+)|(?P<step>x)`:             `group "step" is there twice`,
		`(?P<step>\d+) (\d+)`:                   `not all of its groups have a name`,
		`(epoch|step) (\d+)`:                    `it has 2 groups without a name: name them, as in '(?P<step>\d+)', or write (?:…)`,
		"step\n(\\d+)":                          `progress "step\n(\\d+)": it holds a control character`,
		strings.Repeat("x", MaxProgressBytes):   `no group`,
		strings.Repeat("x", MaxProgressBytes+1): `it has 1025 bytes: use at most 1024`,
		`((a{1000}){1000}){1000}`:               `invalid repeat count`,
	} {
		_, err := CompileProgress(bad)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "progress ") || len(err.Error()) > 1500 {
			t.Errorf("%.40q: got %.400v, want …%s…", bad, err, want)
		}
		s := good()
		if s.Progress = bad; s.Validate() == nil {
			t.Errorf("%.40q was accepted", bad)
		}
	}
	s := good()
	if s.Progress = ProgressAuto; s.Validate() != nil {
		t.Error(s.Validate())
	}
}
