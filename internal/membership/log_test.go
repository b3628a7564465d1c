package membership

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestLogLevels(t *testing.T) {
	for line, want := range map[string]string{
		"[DEBUG] memberlist: Stream connection from=x\n":  `{"level":"trace","message":"gossip: Stream connection from=x"}`,
		"[INFO] memberlist: Suspect b\n":                  `{"level":"debug","message":"gossip: Suspect b"}`,
		"[WARN] memberlist: Refuting a suspect message\n": `{"level":"warn","message":"gossip: Refuting a suspect message"}`,
		"[ERR] memberlist: Push/Pull with b\n":            `{"level":"warn","message":"gossip: Push/Pull with b"}`,
		"something else\n":                                `{"level":"warn","message":"gossip: something else"}`,
	} {
		var out bytes.Buffer
		newLogger(zerolog.New(&out)).Print(line)
		if got := strings.TrimSpace(out.String()); got != want {
			t.Errorf("%q was logged as %s, want %s", line, got, want)
		}
	}
}

func TestLogFilter(t *testing.T) {
	var out bytes.Buffer
	newLogger(zerolog.New(&out).Level(zerolog.InfoLevel)).Print("[INFO] memberlist: Suspect b")
	if out.Len() != 0 {
		t.Errorf("logged %s", &out)
	}
}

// Another key is said once, with the remedy, in whichever of its words memberlist notices it.
func TestLogOfAnotherKey(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	l := newLogger(zerolog.New(&out))
	l.SetOutput(&logLines{to: zerolog.New(&out), now: func() time.Time { return now }})
	for _, line := range []string{
		"[ERR] memberlist: Decrypt packet failed: No installed keys could decrypt the message from=10.0.0.2:7946",
		"[ERR] memberlist: failed to receive: no installed keys could decrypt the message from=10.0.0.3:7946",
		"[ERR] memberlist: failed to receive: remote state is encrypted and encryption is not configured from=10.0.0.3:7946",
		"[ERR] memberlist: failed to receive: encryption is configured but remote state is not encrypted from=10.0.0.3:7946",
	} {
		l.Print(line)
	}
	want := `{"level":"warn","from":"10.0.0.2:7946","message":"gossip: a node has another gossip key, or none, and is not heard: put the same --gossip-key-file on every node"}`
	if got := strings.TrimSpace(out.String()); got != want {
		t.Errorf("logged %s, want %s", got, want)
	}
	now = now.Add(keyWindow)
	l.Print("[ERR] memberlist: failed to receive: no installed keys could decrypt the message from=10.0.0.3:7946")
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("after a while it was said %d times, want 2", n)
	}
}

func TestLogBurst(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	l := &logLines{to: zerolog.New(&out), now: func() time.Time { return now }}
	write := func() {
		if _, err := fmt.Fprintln(l, "[ERR] memberlist: no key fits"); err != nil {
			t.Fatal(err)
		}
	}
	for range logBurst + 7 {
		write()
	}
	if n := strings.Count(out.String(), "no key fits"); n != logBurst {
		t.Errorf("%d lines in one window, want %d", n, logBurst)
	}
	out.Reset()
	now = now.Add(logWindow + time.Second)
	write()
	if got := out.String(); !strings.Contains(got, `"dropped":7`) || strings.Count(got, "no key fits") != 1 {
		t.Errorf("the next window begins with %s", got)
	}
}
