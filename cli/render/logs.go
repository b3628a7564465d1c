package render

import (
	"fmt"
	"io"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
)

// Prefixed is a log line with its rank before it.
func Prefixed(line api.LogLine, s output.Style) string {
	text := line.Text
	if s.Terminal {
		text = output.Tame(text)
	}
	return s.Paint(output.Cyan, fmt.Sprintf("[%d]", line.Rank)) + " " + text
}

// Logs writes lines; what is missing is a message.
type Logs struct {
	Out, Msg   io.Writer
	Style      output.Style // of Out
	JSON       bool
	Bare       bool   // without ranks
	generation uint64 // of the last line
	Missing    bool   // lines that should have come have not
}

// Line writes one line.
func (w *Logs) Line(line api.LogLine) error {
	w.Missing = w.Missing || line.Missing
	switch {
	case w.JSON:
		return output.WriteJSON(w.Out, line, "")
	case line.Notice != "":
		_, err := fmt.Fprintln(w.Msg, "bellows: "+output.OneLine(line.Notice))
		return err
	}
	if w.Style.Terminal && line.Generation != w.generation && (w.generation != 0 || line.Generation > 1) {
		if _, err := fmt.Fprintln(w.Out, w.Style.Paint(output.Faint, fmt.Sprintf("── generation %d ──", line.Generation))); err != nil {
			return err
		}
	}
	w.generation = line.Generation
	text := line.Text
	switch {
	case !w.Bare:
		text = Prefixed(line, w.Style)
	case w.Style.Terminal:
		text = output.Tame(text)
	}
	_, err := fmt.Fprintln(w.Out, text)
	return err
}
