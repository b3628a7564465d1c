package plan

import (
	"strings"

	"github.com/bellows-ml/bellows/allocator/capacity"
	"github.com/bellows-ml/bellows/internal/yamltext"
)

// NodeType is a type of node that can be run.
type NodeType struct {
	Name    string  `json:"type"`
	GPU     string  `json:"gpu"`     // model of its devices
	Devices int     `json:"devices"` // on each node
	Price   float64 `json:"price"`   // of a node, an hour
	Most    int     `json:"most"`    // nodes that there are; 0 = no limit
	Line    int     `json:"-"`       // of the catalogue; 0 = in none
}

// Catalogue is what there is to choose from.
type Catalogue struct {
	Name  string // of its file, for messages
	Types []NodeType
}

const catalogueExample = "nodes: [{type: a100x8, gpu: A100, devices: 8, price: 14.5, most: 4}]"

// ReadCatalogue reads a catalogue. All faults come at once.
func ReadCatalogue(name string, text []byte) (Catalogue, error) {
	r := reader{name: name}
	c := Catalogue{Name: name}
	lines := map[string]int{}
	for _, item := range r.items(text, "nodes", catalogueExample) {
		t := r.nodeType(item)
		if first, again := lines[t.Name]; again && t.Name != "" {
			r.fault(t.Line, "type %.40q: line %d has it already; give each type its own name", t.Name, first)
		}
		lines[t.Name] = t.Line
		c.Types = append(c.Types, t)
	}
	if len(c.Types) > capacity.MaxTypes {
		r.fault(c.Types[capacity.MaxTypes].Line, "%d types of nodes: at most %d; leave out those that nothing would choose", len(c.Types), capacity.MaxTypes)
	}
	return c, r.faults.Err()
}

func (r *reader) nodeType(item yamltext.Value) NodeType {
	t := NodeType{Line: item.Line}
	given := map[string]bool{}
	r.entries(item, []string{"type", "gpu", "devices", "price", "most"}, func(e yamltext.Entry) {
		given[e.Key] = true
		switch e.Key {
		case "type":
			t.Name = r.text(e)
		case "gpu":
			t.GPU = r.text(e)
		case "devices":
			t.Devices = r.count(e, capacity.MaxDevices)
		case "price":
			t.Price = r.positive(e, "write what a node costs an hour, more than 0; for one of your own, its power and its share of the purchase")
		case "most":
			t.Most = r.count(e, capacity.MaxNodes)
		}
	})
	for _, key := range []string{"type", "gpu", "devices", "price"} {
		if item.Kind == yamltext.Map && !given[key] {
			r.fault(item.Line, "%s is missing: write %s", key, strings.TrimPrefix(catalogueExample, "nodes: "))
		}
	}
	return t
}
