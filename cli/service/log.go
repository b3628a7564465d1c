package service

import (
	"bytes"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/logging"
	"github.com/bellows-ml/bellows/internal/systemd"
)

// Logger is a service's: it never makes the service wait, since neither a
// leader nor a node may stand still because no process reads its log lines. Call flush
// at the end.
func Logger() (log zerolog.Logger, flush func()) {
	lines := logging.NewWriter(os.Stderr)
	return JSONLogger(Messages(os.Stderr, lines)), lines.Close
}

// JSONLogger logs as JSON lines.
func JSONLogger(w io.Writer) zerolog.Logger {
	zerolog.TimeFieldFormat = zerolog.TimeFormatUnixMs
	return zerolog.New(w).Level(zerolog.InfoLevel).With().Timestamp().Logger()
}

// Messages is how messages go to w, which ends in f. In the journal each has its
// level as its priority, for journalctl -p warning.
func Messages(f *os.File, w io.Writer) io.Writer {
	if systemd.Journal(f) {
		return journal{w}
	}
	return w
}

type journal struct{ io.Writer }

// WriteLevel implements zerolog.LevelWriter: a line in one piece.
func (j journal) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	priority := systemd.Info
	switch {
	case level >= zerolog.ErrorLevel && level != zerolog.NoLevel && level != zerolog.Disabled:
		priority = systemd.Error
	case level == zerolog.WarnLevel:
		priority = systemd.Warning
	case level < zerolog.InfoLevel:
		priority = systemd.Debug
	}
	if _, err := j.Write(append([]byte(priority.Prefix()), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// PrintError writes an error's lines, as what they are, each with the program's name.
func PrintError(f *os.File, program, text string) {
	var b bytes.Buffer
	prefix := ""
	if systemd.Journal(f) {
		prefix = systemd.Error.Prefix()
	}
	for line := range bytes.Lines([]byte(text)) {
		b.WriteString(prefix + program + ": ")
		b.Write(bytes.TrimRight(line, "\n"))
		b.WriteByte('\n')
	}
	_, _ = f.Write(b.Bytes()) // there is no other place to report it
}
