package commandtest

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/flags"
)

// Docs writes every command that people use, with its flags, as Markdown, below a title. more follows the text of the program.
func Docs(w io.Writer, root *cobra.Command, title, more string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nWritten by `go test ./cmd/%s -update`; a test keeps it current. Every command also has `--help`.\n\n", title, root.Name())
	b.WriteString(root.Long + "\n" + more)
	documentCommands(&b, root)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write docs: %w", err)
	}
	return nil
}

func documentCommands(b *strings.Builder, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.Name() == "help" || c.Parent().Name() == "completion" {
			continue
		}
		fmt.Fprintf(b, "\n## `%s`\n\n%s.\n", c.UseLine(), c.Short)
		if c.Long != "" && c.Name() != "completion" {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", c.Long)
		}
		if c.Example != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.TrimPrefix(strings.ReplaceAll(c.Example, "\n  ", "\n"), "  "))
		}
		c.InitDefaultHelpFlag()
		documentFlags(b, c)
		documentCommands(b, c)
	}
}

func documentFlags(b *strings.Builder, c *cobra.Command) {
	for _, g := range flags.InGroups(c.LocalFlags()) {
		if g.Title != "" {
			fmt.Fprintf(b, "\n%s:\n", g.Title)
		}
		head := "\n| flag | default | |\n|---|---|---|\n"
		for _, f := range g.Flags {
			if f.Name == "help" {
				continue
			}
			b.WriteString(head)
			head = ""
			documentFlag(b, f)
		}
	}
}

// documentFlag writes the row of a flag.
func documentFlag(b *strings.Builder, f *flags.Flag) {
	name, text := flags.Unquote(f)
	flag := "--" + f.Name
	if f.Shorthand != "" {
		flag = "-" + f.Shorthand + ", " + flag
	}
	if name != "" {
		flag += " " + strings.ReplaceAll(name, "|", "\\|")
	}
	value := f.DefValue
	if value == "[]" || value == "false" || strings.Contains(text, "(default") || value == "0" && f.Value.Type() != "int" || value == "0s" {
		value = ""
	}
	if value != "" {
		value = "`" + value + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", flag, value, text)
}
