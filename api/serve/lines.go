package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/bellows-ml/bellows/api"
)

// lines writes JSON lines that reach the reader at once.
type lines struct {
	w     io.Writer
	flush func() error
}

func newLines(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return lines{w, http.NewResponseController(w).Flush}
}

func (l lines) write(line []byte) error {
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write line: %w", err)
	}
	return l.flush()
}

func (l lines) line(line api.LogLine) error {
	b, err := json.Marshal(line)
	if err != nil {
		panic(fmt.Sprintf("marshal %+v: %v", line, err))
	}
	return l.write(b)
}
