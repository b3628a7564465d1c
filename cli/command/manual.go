package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/bellows-ml/bellows/cli/service"
)

// Manual writes a manual page for each command that people use into a folder. The pages
// carry the version instead of a date, so the same sources give the same bytes.
func (p *Program) Manual(dir string) error {
	root := p.Root
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	forManual(root)
	day := time.Unix(0, 0).UTC() // where the library would take today's
	header := &doc.GenManHeader{Title: strings.ToUpper(root.Name()), Section: "1", Date: &day, Source: root.Name() + " " + service.Version(), Manual: "Bellows"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	return nil
}

// forManual makes texts that are written for a terminal into what the pages are
// made of, Markdown: indented lines stay as they are, and placeholders are no tags.
func forManual(c *cobra.Command) {
	c.DisableAutoGenTag = true
	lines, before := strings.Split(c.Long, "\n"), false
	var b strings.Builder
	for _, line := range lines {
		indented := strings.HasPrefix(line, "  ")
		if indented && !before {
			b.WriteString("\n")
		}
		if indented {
			line = "  " + line
		}
		b.WriteString(line + "\n")
		before = indented
	}
	c.Long = strings.TrimSuffix(b.String(), "\n")
	for _, sub := range c.Commands() {
		forManual(sub)
	}
}
