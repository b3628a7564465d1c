package batch

import (
	"slices"
	"strings"
	"testing"
)

func TestDeviceModels(t *testing.T) {
	given := func(flags ...string) func(string) bool {
		return func(flag string) bool { return slices.Contains(flags, flag) }
	}
	s := Settings{Mixed: []string{"v100=2", "k80=1"}, Speeds: Speeds{Source: SpeedProfile}}
	if err := s.mix(given()); err != nil || !slices.Equal(s.Nodes, []int{3}) || !slices.Equal(s.models(), []string{"v100", "v100", "k80"}) || !slices.Equal(s.deviceNames(), []string{"v100", "k80"}) {
		t.Errorf("%v: %v nodes of %v", err, s.Nodes, s.models())
	}
	if none := (Settings{}); none.mix(given()) != nil || none.models() != nil || none.Nodes != nil {
		t.Errorf("without: %+v", none)
	}
	for _, c := range []struct {
		of     []string
		source string
		rules  string
		flags  []string
		want   string
	}{
		{[]string{"v100"}, SpeedProfile, "", nil, `"v100": write MODEL=NODES`},
		{[]string{"v100=0"}, SpeedProfile, "", nil, `"v100=0": write MODEL=NODES`},
		{[]string{"v100=many"}, SpeedProfile, "", nil, `"v100=many": write MODEL=NODES`},
		{[]string{"=3"}, SpeedProfile, "", nil, `"=3": write MODEL=NODES`},
		{[]string{"v100=1", "v100=2"}, SpeedProfile, "", nil, "v100 is there twice: add its nodes up"},
		{[]string{"v100=1"}, SpeedProfile, "", []string{"nodes"}, "leave --nodes out"},
		{[]string{"v100=1"}, SpeedPaper, "", nil, "give --profile"},
		{[]string{"v100=1"}, SpeedProfile, "muri", nil, "neither --rules"},
		{nil, SpeedProfile, "", nil, "--ignore-models: there are none to ignore"},
	} {
		s := Settings{Mixed: c.of, Rules: c.rules, IgnoreModels: true, Speeds: Speeds{Source: c.source}}
		if err := s.mix(given(c.flags...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.of, err, c.want)
		}
	}
}
