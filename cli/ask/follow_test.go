package ask

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
)

// cutOff is an agent that ends its first answers without their end, as one does that is stopped.
func cutOff(t *testing.T, answers ...[]api.LogLine) (*api.Client, <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "logs") //nolint:usetesting // a socket's path is short; t.TempDir's may not be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, len(answers))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RawQuery
		for _, l := range answers[0] {
			_ = json.NewEncoder(w).Encode(l)
		}
		answers = answers[1:]
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return api.NewClient(filepath.Join(dir, "s")), asked
}

// What a tail has come to is kept, and not shown: it is not applied again after a restart.
func TestFollowedTailIsAppliedOnce(t *testing.T) {
	t.Parallel()
	line := func(text string, g uint64, rank int, at int64) api.LogLine {
		return api.LogLine{Generation: g, Rank: rank, Text: text, After: &api.Position{File: 1, Offset: at}, Begin: text == ""}
	}
	end := []api.LogLine{{End: true}}
	for name, c := range map[string]struct {
		first []api.LogLine
		want  string // what is asked then
		shown int
	}{
		"cut off at once":             {nil, "follow=true&tail=3", 0},
		"before the first generation": {[]api.LogLine{{Begin: true, Rank: -1}}, "follow=true", 0},
		"before the first rank":       {[]api.LogLine{{Begin: true, Rank: -1, Generation: 4}}, "follow=true&from=4&tail=3", 0},
		"before the first line": {
			[]api.LogLine{{Begin: true, Rank: -1, Generation: 4}, line("", 4, 0, 7), {Begin: true, Rank: 1, Generation: 4, After: &api.Position{}}},
			"after=0%3A1%3A7&after=1%3A0%3A0&follow=true&from=4&tail=3", 0,
		},
		"in the next generation": {
			[]api.LogLine{{Begin: true, Rank: -1, Generation: 4}, line("", 4, 0, 7), line("a", 4, 0, 9), line("b", 5, 0, 2)},
			"after=0%3A1%3A2&follow=true&from=5", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, asked := cutOff(t, c.first, end)
			var shown []api.LogLine
			q := api.LogQuery{Tail: new(3)}
			if err := FollowLogs(t.Context(), client, "j", q, func(l api.LogLine) error { shown = append(shown, l); return nil }); err != nil {
				t.Fatal(err)
			}
			if <-asked; len(shown) != c.shown {
				t.Errorf("shown is %+v, want %d lines", shown, c.shown)
			}
			if got := <-asked; got != c.want {
				t.Errorf("asked again with %s, want %s", got, c.want)
			}
		})
	}
}

// Following goes on when there was no connection left for it after the agent's
// restart, and does not begin where there is none.
func TestFollowingOutlivesACrowd(t *testing.T) {
	t.Parallel()
	crowded := &api.Error{Code: api.Limited, Message: "too many connections"}
	answers := []error{api.ErrNoAgent, crowded, crowded, nil}
	err := Again(t.Context(), func(heard func()) error {
		if len(answers) == 4 {
			heard()
		}
		err := answers[0]
		answers = answers[1:]
		return err
	})
	if err != nil || len(answers) != 0 {
		t.Errorf("%v, %d answers are left", err, len(answers))
	}
	calls := 0
	if err = Again(t.Context(), func(func()) error { calls++; return crowded }); !errors.Is(err, crowded) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
