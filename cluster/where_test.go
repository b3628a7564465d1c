package cluster

import (
	"strings"
	"testing"
)

func TestWhereRefusesAndSaysWhy(t *testing.T) {
	n := Node{ID: "n1", Devices: []Device{
		{ID: "a", Model: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 << 30}, {ID: "b", Model: "NVIDIA A100", MemoryBytes: 40 << 30},
	}}
	same := Node{ID: "n2", Devices: n.Devices[:1]}
	for _, c := range []struct {
		what  string
		where Where
		node  Node
		want  string // part of the reason; empty = it may run there
	}{
		{"anywhere", Where{}, n, ""},
		{"named", Where{Nodes: []NodeID{"n1"}}, n, ""},
		{"another is named", Where{Nodes: []NodeID{"n2"}}, n, "not among the nodes"},
		{"excluded", Where{Not: []NodeID{"n1"}}, n, "the job excludes"},
		{"model in another case", Where{DeviceModel: "h100"}, same, ""},
		{"one device of another model", Where{DeviceModel: "h100"}, n, `model "NVIDIA A100", and the job wants "h100"`},
		{"enough memory", Where{DeviceMemoryBytes: 80 << 30}, same, ""},
		{"too little on one", Where{DeviceMemoryBytes: 80 << 30}, n, "devices of 40 GiB, and the job wants 80 GiB or more"},
		{"no devices yet", Where{DeviceModel: "h100"}, Node{ID: "n3"}, ""},
	} {
		got := c.where.Refuses(c.node)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestWhereIsValidated(t *testing.T) {
	for _, c := range []struct {
		where Where
		want  string
	}{
		{Where{Nodes: []NodeID{"../x"}}, `node: name "../x"`},
		{Where{Not: []NodeID{""}}, "exclude node: name"},
		{Where{Nodes: []NodeID{"a", "b"}, Not: []NodeID{"b", "a"}}, "leaves none of the nodes"},
		{Where{Not: make([]NodeID, MaxWhereNodes+1)}, "at most 1024"},
	} {
		s := Spec{Name: "j", Command: []string{"x"}, Workdir: "/w", CheckpointDir: "/c", Where: c.where}.WithDefaults()
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.where, err, c.want)
		}
	}
}
