package yamltext

import (
	"bytes"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// FromJSON returns the very fields of a JSON text as YAML, in their order: JSON is YAML in
// another style. Texts that hold a character for which escape is true are put in double
// quotes, where the caller may put escapes.
func FromJSON(text string, escape func(rune) bool) (string, error) {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		return "", err
	}
	block(&node, escape)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(&node), e.Close()); err != nil {
		return "", err
	}
	return out.String(), nil
}

// block gives a node and those below it the style of a file that people write.
func block(n *yaml.Node, escape func(rune) bool) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && strings.IndexFunc(n.Value, escape) >= 0 {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		block(child, escape)
	}
}
