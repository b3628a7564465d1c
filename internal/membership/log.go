package membership

import (
	"log"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// A peer with a wrong key or a broken network makes memberlist repeat itself
// many times a second. More warnings than this in one window do not help.
const (
	logBurst  = 20
	logWindow = 10 * time.Second
	// keyWindow is how often the log says that another node has another key, which
	// lasts until an operator corrects it.
	keyWindow = 5 * time.Minute
)

// logLines turns memberlist's lines into zerolog events. Gossip is only a
// hint, so its errors are warnings here, and what it finds noteworthy about
// itself is for debugging.
//
// log.Logger writes one line at a time, which is all the locking it needs.
type logLines struct {
	to         zerolog.Logger
	now        func() time.Time
	windowEnds time.Time
	written    int
	dropped    int
	keySaid    time.Time // when people were last told of a key that does not fit
}

func newLogger(to zerolog.Logger) *log.Logger {
	return log.New(&logLines{to: to, now: time.Now}, "", 0)
}

// Write takes one line, "[LEVEL] memberlist: text".
func (l *logLines) Write(line []byte) (int, error) {
	switch level, text := splitLine(line); level {
	case "DEBUG":
		l.to.Trace().Msg(text)
	case "INFO":
		l.to.Debug().Msg(text)
	default: // WARN, ERR, and lines that have no level
		if isKeyTrouble(text) {
			l.sayKey(text)
			break
		}
		if !l.admit() {
			break
		}
		if l.dropped > 0 {
			l.to.Warn().Int("dropped", l.dropped).Msg("gossip: too many warnings")
			l.dropped = 0
		}
		l.to.Warn().Msg(text)
	}
	return len(line), nil
}

// isKeyTrouble recognises what memberlist says of a peer with another key, or with
// none, over UDP and over TCP.
func isKeyTrouble(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "no installed keys could decrypt") || strings.Contains(text, "encryption is not configured") ||
		strings.Contains(text, "remote state is not encrypted")
}

func (l *logLines) sayKey(text string) {
	now := l.now()
	if !l.keySaid.IsZero() && now.Sub(l.keySaid) < keyWindow {
		return
	}
	l.keySaid = now
	_, from, _ := strings.Cut(text, "from=")
	l.to.Warn().Str("from", from).Msg("gossip: a node has another gossip key, or none, and is not heard: put the same --gossip-key-file on every node")
}

// admit counts a warning against the current window.
func (l *logLines) admit() bool {
	if now := l.now(); now.After(l.windowEnds) {
		l.windowEnds, l.written = now.Add(logWindow), 0
	}
	if l.written == logBurst {
		l.dropped++
		return false
	}
	l.written++
	return true
}

func splitLine(line []byte) (level, text string) {
	text = strings.TrimSpace(string(line))
	if rest, ok := strings.CutPrefix(text, "["); ok {
		if name, after, ok := strings.Cut(rest, "] "); ok {
			level, text = name, after
		}
	}
	return level, "gossip: " + strings.TrimPrefix(text, "memberlist: ")
}
