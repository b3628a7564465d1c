package batch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/internal/fault"
)

// ofModel is the nodes of one model of devices.
type ofModel struct {
	name  string
	nodes int
}

// mixed reads Mixed.
func (s *Settings) mixed() (out []ofModel, err error) {
	for _, text := range s.Mixed {
		name, number, ok := strings.Cut(text, "=")
		n, bad := strconv.Atoi(number)
		switch {
		case !ok || name == "" || bad != nil || n < 1:
			return nil, fault.Usage("--device-models %q: write MODEL=NODES, say v100=3", text)
		case slices.ContainsFunc(out, func(o ofModel) bool { return o.name == name }):
			return nil, fault.Usage("--device-models %q: %s is there twice: add its nodes up", text, name)
		}
		out = append(out, ofModel{name, n})
	}
	return out, nil
}

// mix checks Mixed, and counts its nodes.
func (s *Settings) mix(given func(flag string) bool) error {
	models, err := s.mixed()
	switch {
	case err != nil:
		return err
	case len(models) == 0 && s.IgnoreModels:
		return fault.Usage("--ignore-models: there are none to ignore: give --device-models")
	case len(models) == 0:
		return nil
	case given("nodes"):
		return fault.Usage("--device-models %s: it has the numbers of nodes: leave --nodes out", strings.Join(s.Mixed, ","))
	case s.Source != SpeedProfile || s.Rules != "":
		return fault.Usage("--device-models %s: how fast jobs are on each is in a profile: give --profile, and neither --rules nor --speed", strings.Join(s.Mixed, ","))
	}
	s.Nodes = []int{0}
	for _, m := range models {
		s.Nodes[0] += m.nodes
	}
	return nil
}

// models are those of the nodes' devices, node by node; nil where all are alike.
func (s *Settings) models() (out []string) {
	models, _ := s.mixed() // Complete has refused what cannot be read
	for _, m := range models {
		out = append(out, slices.Repeat([]string{m.name}, m.nodes)...)
	}
	return out
}

// deviceNames are the models, each once.
func (s *Settings) deviceNames() (out []string) {
	models, _ := s.mixed()
	for _, m := range models {
		out = append(out, m.name)
	}
	return out
}
