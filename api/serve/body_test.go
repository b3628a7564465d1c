package serve

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// heldBodies is a server that answers some requests when the test lets it, and has their bodies in memory until then.
type heldBodies struct {
	*httptest.Server
	entered, release chan struct{}
}

func holdBodies(t *testing.T) heldBodies {
	t.Helper()
	s := NewServer(Config{})
	h := heldBodies{entered: make(chan struct{}, 1000), release: make(chan struct{})}
	hear := s.bodies.heard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Held") != "" {
			h.entered <- struct{}{}
			<-h.release
		}
	}))
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uid, err := strconv.ParseUint(r.Header.Get("Uid"), 10, 32)
		if err != nil {
			panic(err)
		}
		peer := localPeer{Owner: cluster.Owner{UID: uint32(uid)}}
		hear.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, peer)))
	}))
	t.Cleanup(h.Close)
	t.Cleanup(func() { close(h.release) })
	return h
}

// posted is a request: a POST unless get, of a body whose size the server is told unless chunked.
type posted struct {
	uid, size          int
	held, chunked, get bool
}

// send sends a request and returns why it was refused, or "" if it was answered.
func (h heldBodies) send(t *testing.T, p posted) api.Code {
	t.Helper()
	body, method := io.Reader(strings.NewReader(strings.Repeat(" ", p.size))), http.MethodPost
	if p.chunked {
		body = io.MultiReader(body)
	}
	if p.get {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, h.URL, body)
	if err != nil {
		t.Error(err)
		return api.Internal
	}
	r.Header.Set("Uid", strconv.Itoa(p.uid))
	if p.held {
		r.Header.Set("Held", "yes")
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return api.Internal
	}
	defer resp.Body.Close()
	var e api.Error
	if resp.StatusCode != http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
			t.Error(err)
		}
	}
	return e.Code
}

// hold has a user send a body, which has to be heard, and does not wait for its answer.
func (h heldBodies) hold(t *testing.T, uid, size int) (answered chan api.Code) {
	t.Helper()
	answered = make(chan api.Code, 1)
	go func() { answered <- h.send(t, posted{uid: uid, size: size, held: true}) }()
	select {
	case <-h.entered:
	case code := <-answered:
		t.Fatalf("%d bytes of user %d are refused: %s", size, uid, code)
	}
	return answered
}

// The bytes of requests that wait for their bodies or their answers are bounded, of
// each user and in all, and small requests are heard all the same.
func TestBytesOfBodiesAreBounded(t *testing.T) {
	t.Parallel()
	h := holdBodies(t)
	const ann, bob = 1000, 1001
	var anns []chan api.Code
	for range 4 {
		anns = append(anns, h.hold(t, ann, userBodies/4))
	}
	if code := h.send(t, posted{uid: ann, size: smallBody + 1}); code != api.Limited {
		t.Errorf("beyond the share of a user: %q, want %q", code, api.Limited)
	}
	h.hold(t, ann, smallBody)
	h.hold(t, bob, smallBody+1)
	if code := h.send(t, posted{uid: bob, size: 10, chunked: true}); code != api.Limited {
		t.Errorf("a body that may be as large as any beside another: %q, want %q", code, api.Limited)
	}
	h.hold(t, bob, userBodies-smallBody-1)
	for uid := range maxBodies/userBodies - maxBodies/16/userBodies - 2 {
		h.hold(t, 2000+uid, userBodies)
	}
	if code := h.send(t, posted{uid: 3000, size: smallBody + 1}); code != api.Limited {
		t.Errorf("beyond what all users have together: %q, want %q", code, api.Limited)
	}
	h.hold(t, 3000, smallBody)
	h.hold(t, 0, userBodies)
	select {
	case code := <-anns[0]:
		t.Fatalf("a request was answered too early: %q", code)
	default:
	}
}

// What an answer takes of the room is there again when it has been given.
func TestAnAnsweredBodyLeavesItsRoom(t *testing.T) {
	t.Parallel()
	h := holdBodies(t)
	for range 3 {
		answered := h.hold(t, 1000, userBodies)
		h.release <- struct{}{}
		if code := <-answered; code != "" {
			t.Fatal(code)
		}
	}
	if code := h.send(t, posted{uid: 1000, size: api.MaxBody + 1}); code != api.Invalid {
		t.Errorf("a body that is too large: %q", code)
	}
	h.hold(t, 1000, userBodies)
}

// A body that no handler reads would lie in memory for as long as the answer is followed.
func TestOnlyWhatIsPostedHasABody(t *testing.T) {
	t.Parallel()
	h := holdBodies(t)
	for _, chunked := range []bool{false, true} {
		if code := h.send(t, posted{uid: 1000, size: 10, get: true, chunked: chunked}); code != api.Invalid {
			t.Errorf("a GET with a body (chunked %t): %q, want %q", chunked, code, api.Invalid)
		}
	}
}
