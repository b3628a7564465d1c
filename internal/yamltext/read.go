package yamltext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	// ErrEmpty says that a text holds no document.
	ErrEmpty = errors.New("it is empty")
	// ErrSeveral says that a text holds more than one document.
	ErrSeveral = errors.New("it holds more than one document")
)

// Kind is what a value is.
type Kind int

// The kinds of values. An alias within a list is Other: only a value of a key may be one.
const (
	Null Kind = iota
	Text      // also numbers and booleans, as they were written
	List
	Map
	Other
)

// A Value is one value of a document.
type Value struct {
	Kind Kind
	Text string // of a text or null, as it was written, without quotes
	// Quoted reports that YAML takes it for a text even where it looks like a number.
	Quoted bool
	Line   int

	node *yaml.Node
}

// An Entry is a key of a map with its value.
type Entry struct {
	Key   string
	Line  int // of the key
	Value Value
}

// Read reads a text that holds one document and returns its topmost value.
func Read(text []byte) (Value, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return Value{}, ErrEmpty
	case err != nil:
		return Value{}, err
	}
	if d.Decode(new(yaml.Node)) == nil {
		return Value{}, ErrSeveral
	}
	return valueOf(doc.Content[0]), nil
}

// Fault returns an error of Read with the name of the file and, where there is one, the line.
func Fault(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "cannot start any token") {
		text += ": indent with spaces, not tabs, and put a text that begins with @, % or ` into quotes"
	}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		return fmt.Errorf("%s:%s", name, rest)
	}
	return fmt.Errorf("%s: %s", name, text)
}

func valueOf(n *yaml.Node) Value {
	v := Value{Kind: Other, Line: n.Line, node: n}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		v.Kind, v.Text = Null, n.Value
	case n.Kind == yaml.ScalarNode:
		v.Kind, v.Text, v.Quoted = Text, n.Value, n.Tag == "!!str"
	case n.Kind == yaml.SequenceNode:
		v.Kind = List
	case n.Kind == yaml.MappingNode:
		v.Kind = Map
	}
	return v
}

// Items returns the values of a list.
func (v Value) Items() []Value {
	if v.Kind != List {
		return nil
	}
	items := make([]Value, len(v.node.Content))
	for i, n := range v.node.Content {
		items[i] = valueOf(n)
	}
	return items
}

// Entries returns the keys of a map in the order in which they stand; repeated ones, too.
func (v Value) Entries() []Entry {
	if v.Kind != Map {
		return nil
	}
	var entries []Entry
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, value := v.node.Content[i], v.node.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		entries = append(entries, Entry{Key: key.Value, Line: key.Line, Value: valueOf(value)})
	}
	return entries
}

// Texts returns the items of a list of texts.
func (v Value) Texts() ([]string, error) {
	if v.Kind != List {
		return nil, errors.New("use a list of texts, as in: [python, train.py, --lr, \"0.1\"]")
	}
	var texts []string
	for i, item := range v.Items() {
		if item.Kind != Text {
			return nil, fmt.Errorf("item %d: use a text", i+1)
		}
		texts = append(texts, item.Text)
	}
	return texts, nil
}

// Bool returns a truth value.
func (v Value) Bool() (bool, error) {
	var b bool
	if v.node == nil || v.node.Decode(&b) != nil {
		return false, fmt.Errorf("%.40q: use true or false", v.Text)
	}
	return b, nil
}
