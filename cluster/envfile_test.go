package cluster

import (
	"maps"
	"strings"
	"testing"
)

func TestParseEnvFile(t *testing.T) {
	got, err := ParseEnvFile("# keys\n\nTOKEN=a=b \"c\"\r\n  # more\nEMPTY=\nLAST=x")
	want := map[string]string{"TOKEN": `a=b "c"`, "EMPTY": "", "LAST": "x"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	const secret = "hush"
	_, err = ParseEnvFile("A=1\nA=" + secret + "\nBELLOWS_X=" + secret + "\nno " + secret + "\n=" + secret + "\nB C=" + secret + "\nD=" + secret + "\x00\nRANK=" + secret + "\n")
	for _, words := range []string{"line 2: A is given twice", "line 3: BELLOWS_X", "line 4: use NAME=VALUE", "line 5", "line 6", "line 7", "line 8: RANK: Bellows sets it"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v does not say %q", err, words)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("a fault tells the secret: %v", err)
	}
}
