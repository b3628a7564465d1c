package service

import (
	"bytes"
	"testing"

	"github.com/rs/zerolog"
)

// Each line of the journal has its level as its priority, and is one write: lines
// of several goroutines are not torn.
func TestLinesOfTheJournalHavePriorities(t *testing.T) {
	var b bytes.Buffer
	writes := 0
	log := zerolog.New(journal{countingWriter{&b, &writes}})
	log.Info().Msg("a")
	log.Warn().Msg("b")
	log.Error().Msg("c")
	log.Debug().Msg("d")
	log.Log().Msg("e")
	const want = `<6>{"level":"info","message":"a"}
<4>{"level":"warn","message":"b"}
<3>{"level":"error","message":"c"}
<7>{"level":"debug","message":"d"}
<6>{"message":"e"}
`
	if got := b.String(); got != want || writes != 5 {
		t.Errorf("in %d writes:\n%s", writes, got)
	}
}

type countingWriter struct {
	b *bytes.Buffer
	n *int
}

func (w countingWriter) Write(p []byte) (int, error) {
	*w.n++
	return w.b.Write(p)
}
