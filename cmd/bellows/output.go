package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/bellows-ml/bellows/cluster"
)

// format is how a command writes its result.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
)

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch format(s) {
	case asTable, asJSON, asYAML:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("use table, json or yaml")
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "table|json|yaml" }

func outputFlag(cmd *cobra.Command) *format {
	f := asTable
	cmd.Flags().VarP(&f, "output", "o", "write the result as this; the fields of json and yaml are a contract")
	return &f
}

// write writes v as JSON or YAML, or calls f for a table.
func (f format) write(w io.Writer, v any, tabular func() error) error {
	switch f {
	case asTable:
		return tabular()
	case asJSON:
		return writeJSON(w, v, "  ")
	case asYAML:
		return writeYAML(w, v)
	}
	panic("format " + string(f))
}

// writeJSON writes v as JSON, in one line if indent is empty, with escapes for what
// could disturb a terminal.
func writeJSON(w io.Writer, v any, indent string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	_, err := io.WriteString(w, escaped(text.String()))
	return err
}

// escaped puts escapes for characters that could disturb a terminal, where they
// stand in strings of JSON, or of YAML in double quotes.
func escaped(text string) string {
	if strings.IndexFunc(text, disturbing) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if disturbing(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// disturbing leaves out the line breaks between values.
func disturbing(r rune) bool { return r != '\n' && cluster.Disturbs(r) }

// writeYAML writes the very fields that JSON has, in their order: JSON is YAML
// in another style.
func writeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	var node yaml.Node
	if err = yaml.Unmarshal([]byte(escaped(string(text))), &node); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	block(&node)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err = errors.Join(e.Encode(&node), e.Close()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	_, err = io.WriteString(w, escaped(out.String()))
	return err
}

func block(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && strings.IndexFunc(n.Value, disturbing) >= 0 {
		n.Style = yaml.DoubleQuotedStyle // where escapes may stand
	}
	for _, child := range n.Content {
		block(child)
	}
}
