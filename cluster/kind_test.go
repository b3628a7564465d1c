package cluster_test

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func TestDefaultKind(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ command, begins string }{
		{"python train.py", "train.py-"},
		{"python -u /srv/models/train.py", "train.py-"},
		{"python train.py --lr 0.1", "train.py-"},
		{"torchrun --standalone bert large.py", "large.py-"},
		{"/opt/bin/gpt", "gpt-"},
		{"./.-x", "x-"},
		{"/", "job-"},
		{"", "job-"},
		{"tränen", "tr__nen-"},
		{"a..b", "a._b-"},
		{"übung", "job__bung-"},
		{"..py", "py-"},
		{strings.Repeat("long", 100) + ".py", "longlong"},
	} {
		words := strings.Fields(c.command)
		kind := cluster.DefaultKind(words)
		if err := cluster.CheckKind(kind); err != nil || !strings.HasPrefix(kind, c.begins) {
			t.Errorf("%q is of kind %q (%v), want one that begins with %q", c.command, kind, err, c.begins)
		}
		if other, twice := seen[kind]; twice {
			t.Errorf("%q and %q are both of kind %s", c.command, other, kind)
		}
		seen[kind] = c.command
		if got := (cluster.Spec{Command: words}).KindName(); got != kind {
			t.Errorf("%q: %q without a name, want %q", c.command, got, kind)
		}
	}
	if got := (cluster.Spec{Command: []string{"x"}, Kind: "bert"}).KindName(); got != "bert" {
		t.Errorf("a job of kind bert is of kind %q", got)
	}
}

func TestCheckKind(t *testing.T) {
	for _, good := range []string{"a", "bert-large_2.1", strings.Repeat("x", cluster.MaxNameBytes)} {
		if err := cluster.CheckKind(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", ".", "..", "-x", "a..b", "a/b", "a b", "ä", "a\x00", strings.Repeat("x", cluster.MaxNameBytes+1)} {
		if err := cluster.CheckKind(bad); err == nil || !strings.HasPrefix(err.Error(), "kind ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
