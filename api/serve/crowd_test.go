package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/record"
)

// dial connects to an agent and sends the beginning of a request.
func dial(t *testing.T, a *agent, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", a.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	return c
}

// A request whose header or body does not come is given up, whatever it is for, and
// so is one that the handler would not read the body of.
func TestHalfARequestIsNotHeld(t *testing.T) {
	t.Parallel()
	a := serve(t, newFakeStore(), "n1", &stranger)
	for _, half := range []string{
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{",
		"POST /v1/jobs/j/stop HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
		"GET /v1/events?follow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{",
		"GET /v1/nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(strings.Fields(half)[1], func(t *testing.T) {
			t.Parallel()
			if _, err := io.Copy(io.Discard, dial(t, a, half)); err != nil {
				t.Errorf("after %s: %v, want the end of the connection", bodyTimeout, err)
			}
		})
	}
}

// The time limit of a request does not end the answer to a follower.
func TestAFollowerIsNotCutOff(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	a := serve(t, store, "n1", nil)
	store.admit(t, "train-aaaaaa", self(), record.State{Phase: cluster.Queued})
	phases := make(chan cluster.Phase, 10)
	done := make(chan error, 1)
	go func() {
		done <- a.Watch(t.Context(), "train-aaaaaa", func(s api.JobStatus) error { phases <- s.Phase; return nil })
	}()
	if p := <-phases; p != cluster.Queued {
		t.Fatal(p)
	}
	select {
	case err := <-done:
		t.Fatalf("cut off: %v", err)
	case <-time.After(bodyTimeout + 2*time.Second): // the bound that must not strike
	}
	store.put(t, record.Put(record.StateKey("train-aaaaaa"), record.State{Phase: cluster.Succeeded}))
	if err := <-done; err != nil || <-phases != cluster.Succeeded {
		t.Error(err)
	}
}

// The name service may hang: that keeps one request waiting, and no other connection.
func TestAHangingUserDatabaseKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	a := serve(t, newFakeStore(), "n1", nil)
	answer, asked, first := make(chan struct{}), make(chan struct{}), atomic.Bool{}
	a.server.cfg.UserName = func(context.Context, uint32) (string, error) {
		if first.CompareAndSwap(false, true) {
			close(asked)
			<-answer
		}
		return "", userdb.ErrNoAnswer
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := a.Status(t.Context())
		waiting <- err
	}()
	<-asked
	if s, err := a.Status(t.Context()); err != nil || s.Caller != unnamed(self().UID) {
		t.Errorf("while another request waits: %+v, %v", s, err)
	}
	if err := a.server.submissions.mayHost(t.Context(), cluster.Owner{UID: 70001, User: unnamed(70001)}); ownUID() == 0 &&
		(api.CodeOf(err) != api.Unavailable || !strings.Contains(err.Error(), "does not answer: try again")) {
		t.Errorf("a submit of a user whose name is not known now: %v", err)
	}
	close(answer)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// A user may have a number of connections; the next one is refused with the reason.
func TestConnectionsOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	const most = 5
	store.put(t, record.Put(record.LimitsKey, record.Limits{LiveJobs: 9, Submits: 9, Bytes: 1 << 20, Connections: most}))
	a := serve(t, store, "n1", &stranger)
	eventually(t, "the connections of the start are closed", func() bool {
		_, err := a.Status(t.Context())
		return err == nil
	})
	var held []net.Conn
	for range most {
		held = append(held, dial(t, a, "GET /v1/events?follow=true HTTP/1.1\r\nHost: a\r\n\r\n")) // no timeout ends this one
	}
	refused := func() *api.Error {
		_, err := a.Status(t.Context())
		if e, ok := err.(*api.Error); ok { //nolint:errorlint // do returns it as it is
			return e
		}
		return nil
	}
	var e *api.Error // the first refusal: what is closed meanwhile makes room for another
	eventually(t, "one more is refused", func() bool { e = refused(); return e != nil })
	if e.Code != api.Limited || !strings.Contains(e.Message, "5 of one user's, --user-connections of the coordinator") {
		t.Errorf("%+v", e)
	}
	for _, c := range held {
		_ = c.Close()
	}
	eventually(t, "they count no longer", func() bool { return refused() == nil })
}

func TestALargeBodyIsRefused(t *testing.T) {
	t.Parallel()
	a := serve(t, newFakeStore(), "n1", &stranger)
	c := dial(t, a, fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", api.MaxBody+1))
	go func() { _, _ = io.WriteString(c, strings.Repeat(" ", api.MaxBody+1)) }()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %s", resp.Status)
	}
}
