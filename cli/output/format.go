package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/yamltext"
)

// Format is how a command writes its result.
type Format string

// The formats.
const (
	AsTable Format = "table"
	AsJSON  Format = "json"
	AsYAML  Format = "yaml"
)

// Set implements pflag.Value.
func (f *Format) Set(s string) error {
	switch Format(s) {
	case AsTable, AsJSON, AsYAML:
		*f = Format(s)
		return nil
	}
	return fmt.Errorf("use table, json or yaml")
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "table|json|yaml" }

// Write writes v as JSON or YAML, or calls f for a table.
func (f Format) Write(w io.Writer, v any, tabular func() error) error {
	switch f {
	case AsTable:
		return tabular()
	case AsJSON:
		return WriteJSON(w, v, "  ")
	case AsYAML:
		return writeYAML(w, v)
	}
	panic("format " + string(f))
}

// WriteJSON writes v as JSON, in one line if indent is empty, with escapes for what
// could disturb a terminal.
func WriteJSON(w io.Writer, v any, indent string) error {
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

// writeYAML writes the very fields that JSON has, in their order.
func writeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	out, err := yamltext.FromJSON(escaped(string(text)), disturbing)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	_, err = io.WriteString(w, escaped(out))
	return err
}
