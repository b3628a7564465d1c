package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
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
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	case asYAML:
		return writeYAML(w, v)
	}
	panic("format " + string(f))
}

// writeYAML writes the very fields that JSON has, in their order: JSON is YAML
// in another style.
func writeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	block(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return e.Close()
}

func block(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		block(child)
	}
}
