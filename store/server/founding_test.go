package server

import (
	"errors"
	"testing"

	"github.com/bellows-ml/bellows/store"
)

// A place that was made a moment ago is known to some members before it is to others.
func TestAPlaceIsTakenThatOneMemberKnowsOf(t *testing.T) {
	t.Parallel()
	url := func(name string) string { return "https://10.0.0." + name[1:] + ":2380" }
	member := func(name string) peerMember {
		return peerMember{Name: name, PeerURLs: []string{url(name)}, ClientURLs: []string{"https://10.0.0." + name[1:] + ":2379"}}
	}
	place := peerMember{PeerURLs: []string{url("n3")}}
	says := func(from string, members ...peerMember) peerAnswer {
		return peerAnswer{from: Member{Name: from, URL: url(from)}, members: members}
	}
	c := Config{Member: "n3", Members: []Member{{"n1", url("n1")}, {"n2", url("n2")}, {"n3", url("n3")}}}
	behind, ahead := says("n1", member("n1"), member("n2")), says("n2", member("n1"), member("n2"), place)
	for name, answers := range map[string][]peerAnswer{"the last": {behind, ahead}, "the first": {ahead, behind}} {
		b, missing, err := c.judge(answers)
		if err != nil || len(missing) > 0 || !b.joins || len(b.members) != 3 {
			t.Errorf("%s to answer knows it: %+v, %v, %v", name, b, missing, err)
		}
	}
	if b, _, err := c.judge([]peerAnswer{behind, behind}); !errors.Is(err, store.ErrUnfit) {
		t.Errorf("no member knows it: %+v, %v", b, err)
	}
}
