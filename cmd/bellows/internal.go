package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/nvml"
)

// internalCommand holds what the program runs of itself.
func internalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "internal", Short: "Parts of the program that it runs itself", Hidden: true, Args: noSuchCommand}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(
		&cobra.Command{
			Use:   "digest",
			Short: "Do one checkpoint task, read from stdin, as the user that this runs as",
			Args:  exactly(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return dirblob.Serve(cmd.Context(), os.Stdin, os.Stdout)
			},
		},
		&cobra.Command{
			Use:   "look",
			Short: "Look at what a job needs of this node, read from stdin, as the job's owner",
			Args:  exactly(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return precheck.Answer(cmd.Context(), os.Stdin, os.Stdout)
			},
		},
		nvmlCommand(),
		&cobra.Command{
			Use:   "docs",
			Short: "Print docs/cli.md",
			Args:  exactly(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return writeDocs(os.Stdout, cmd.Root())
			},
		},
		&cobra.Command{
			Use:   "man DIR",
			Short: "Write a manual page for each command into DIR",
			Args:  exactly("DIR"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return writeManual(args[0], cmd.Root())
			},
		},
	)
	return cmd
}

// nvmlCommand looks at the devices in a process of its own, as a call into the
// driver may hang or end it. Answers go to descriptor 3.
func nvmlCommand() *cobra.Command {
	var library string
	cmd := &cobra.Command{Use: "nvml", Short: "Look at this machine's devices, for each line read from stdin", Args: exactly()}
	cmd.Flags().StringVar(&library, "library", "", "the driver's library (default: where the system has it)")
	cmd.RunE = func(*cobra.Command, []string) error {
		return nvml.Serve(os.Stdin, os.NewFile(3, "answers"), library)
	}
	return cmd
}

// writeDocs writes every command that people use, with its flags, as Markdown.
func writeDocs(w io.Writer, root *cobra.Command) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var b strings.Builder
	b.WriteString("# Commands\n\nWritten by `bellows internal docs`; a test keeps it current. Every command also has `--help`.\n\n")
	b.WriteString(root.Long + "\n\n")
	b.WriteString("The agent is found by `--socket`, else `$BELLOWS_SOCKET`, else at the first of `/run/bellows/agent.sock`,\n")
	b.WriteString("`$XDG_RUNTIME_DIR/bellows/agent.sock` (or, where that is not set, `/tmp/bellows-<uid>/agent.sock`) that exists.\n")
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
