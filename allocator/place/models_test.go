package place_test

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/allocator/place"
	"github.com/bellows-ml/bellows/cluster"
)

// ofModels are nodes as "a4:v100 b4:k80" has them.
func ofModels(text string) []cluster.Node {
	var all []cluster.Node
	for f := range strings.FieldsSeq(text) {
		name, model, _ := strings.Cut(f, ":")
		n := nodes(name)
		for d := range n[0].Devices {
			n[0].Devices[d].Model = model
		}
		all = append(all, n...)
	}
	return all
}

// on is a count that names a model.
func on(text, model string) place.Count {
	c := count(text)
	c.Model = model
	return c
}

func shown(r place.Result) string {
	var out []string
	for _, a := range r.Allocations {
		out = append(out, show(a))
	}
	for _, u := range r.Unplaced {
		out = append(out, "not "+string(u.Job))
	}
	return strings.Join(out, ", ")
}

func TestCountsOfOneModel(t *testing.T) {
	for _, c := range []struct {
		name, nodes string
		current     []string
		want        []place.Count
		result      string
	}{
		{"each on its own", "a4:v100 b4:k80", nil, []place.Count{on("x=4", "k80"), on("y=4", "v100")}, "x b0123, y a0123"},
		{"none on two", "a2:v100 b2:k80", nil, []place.Count{on("x=4", "v100")}, "not x"},
		{"a model that is not there", "a2:v100", nil, []place.Count{on("x=1", "t4")}, "not x"},
		{"of any model on both, after those that name one", "a2:v100 b4:k80", nil, []place.Count{count("x=4"), on("y=2", "k80")}, "x a01 b23, y b01"},
		{"of any model that stays, before them", "a2:v100 b4:k80", []string{"x a01 b01"}, []place.Count{on("y=2", "k80"), count("x=4")}, "y b23, x a01 b01"},
		{"to another model at its size", "a2:v100 b2:k80", []string{"x a01"}, []place.Count{on("x=2", "k80")}, "x b01"},
		{"it stays on its model", "a4:v100 b4:k80", []string{"x b13"}, []place.Count{on("y=2", "k80"), on("x=2", "k80")}, "y b02, x b13"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var current []cluster.Allocation
			for _, a := range c.current {
				current = append(current, alloc(a))
			}
			if got := shown(place.Place(ofModels(c.nodes), current, c.want)); got != c.result {
				t.Errorf("%s, want %s", got, c.result)
			}
		})
	}
}

// One node may have devices of two models side by side.
func TestTwoModelsOfOneNode(t *testing.T) {
	n := ofModels("a4:v100")
	n[0].Devices[1].Model, n[0].Devices[3].Model = "k80", "k80"
	if got := shown(place.Place(n, nil, []place.Count{on("x=2", "k80"), on("y=2", "v100"), on("z=1", "k80")})); got != "x a13, y a02, not z" {
		t.Error(got)
	}
}

// Jobs move so that others are closer together among the devices of their model, and in all at most as
// often as they may.
func TestRepairKeepsToModels(t *testing.T) {
	q := place.Question{Nodes: ofModels("a2:v100 b2:v100 c2:k80 d2:k80")}
	for _, a := range []string{"p a0", "q b0", "r c0", "s d0"} {
		q.Current = append(q.Current, alloc(a))
	}
	for _, c := range []place.Count{on("p=1", "v100"), on("q=1", "v100"), on("r=1", "k80"), on("s=1", "k80"), on("x=2", "v100"), on("y=2", "k80")} {
		if c.MoveCost = 1; c.Workers == 2 {
			c.MoveCost, c.SpanCost = 0, 1000
		}
		q.Want = append(q.Want, c)
	}
	for most, want := range []int{0, 1, 2, 2} {
		r, moves := place.Repair(q, place.Place(q.Nodes, q.Current, q.Want), most)
		if len(moves) != want || len(r.Unplaced) > 0 {
			t.Errorf("%d moves of %d at most: %s", len(moves), most, shown(r))
		}
		together := 0
		for i, a := range r.Allocations {
			if a.Job != q.Want[i].Job {
				t.Errorf("not in the order that was asked for: %s", shown(r))
			}
			for _, p := range a.Placements {
				if v100 := p.Node == "a" || p.Node == "b"; v100 != (q.Want[i].Model == "v100") {
					t.Errorf("%s is to have devices of %s", show(a), q.Want[i].Model)
				}
			}
			if a.Workers() == 2 && len(a.Placements) == 1 {
				together++
			}
		}
		if together != want {
			t.Errorf("%d moves have brought %d jobs together: %s", len(moves), together, shown(r))
		}
	}
}
