package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/internal/gate"
)

const (
	// bodyTimeout bounds how long a request's body may take: it comes from the same machine.
	bodyTimeout = 10 * time.Second
	// smallBody is how many bytes of a body need no room: what stops or resumes a job is
	// smaller, and so are most submissions, so that these are heard while others send
	// large ones. All connections together hold 16 MiB of them at most.
	smallBody = 4 << 10
	// maxBodies bounds the bytes of all larger bodies that are held at once. The users who
	// fill it are as many as fill all connections with the usual --user-connections.
	maxBodies = 32 * userBodies
	// userBodies is what one user may have of them: one of the largest, or two of the
	// largest specs without escapes. The usual --user-submits-per-minute allow hardly more
	// in a minute.
	userBodies = api.MaxBody
)

// bodies reads requests' bodies, whose bytes are bounded: a sixteenth is for those who are exempt.
type bodies struct {
	view  *view
	bound *gate.Bound
}

func newBodies(v *view) *bodies { return &bodies{v, gate.NewBound(maxBodies, maxBodies/16)} }

// heard reads a request's body before anything is done about it, in bounded time and
// bounded memory, which it holds until the request is answered. The time of an answer is
// not bounded: people follow logs for days, and may leave them lying; the number of
// their connections is. Such a request has no body, which would lie in memory as long.
func (b *bodies) heard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		room, err := bodyRoom{}, control.SetReadDeadline(time.Now().Add(bodyTimeout)) // also for what is refused: the server reads the rest of it
		if err == nil {
			room, err = b.roomFor(r)
		}
		if err == nil {
			defer room.leave()
			err = receive(w, r, room.bytes)
		}
		if err == nil {
			err = control.SetReadDeadline(time.Time{})
		}
		if err != nil {
			w.Header().Set("Connection", "close") // the rest of it is not read
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bodyRoom is where a request's body has room.
type bodyRoom struct {
	bytes int64
	leave func()
}

// roomFor takes room for a request's body, by what the request says of its size; one
// that does not say it may be as large as any.
func (b *bodies) roomFor(r *http.Request) (bodyRoom, error) {
	size := r.ContentLength
	switch {
	case size == 0:
		return bodyRoom{0, func() {}}, nil
	case r.Method != http.MethodPost:
		return bodyRoom{}, api.Fault(api.Invalid, "request: a %.20s has no body here", r.Method)
	case size > api.MaxBody:
		return bodyRoom{}, api.Fault(api.Invalid, "request: its body has %d bytes, at most %d", size, api.MaxBody)
	case size < 0:
		size = api.MaxBody
	case size <= smallBody:
		return bodyRoom{size, func() {}}, nil
	}
	leave, ok := b.bound.Take(b.sender(r), int(size))
	if !ok {
		return bodyRoom{}, api.Fault(api.Limited, "this agent has no room for a request of %d bytes now (%d bytes for those of one user, %d for all): try again when others are answered",
			size, userBodies, maxBodies)
	}
	return bodyRoom{size, leave}, nil
}

// sender returns whose share of all bodies a request's body is counted in.
func (b *bodies) sender(r *http.Request) gate.Peer {
	if peer, ok := r.Context().Value(peerKey{}).(localPeer); ok {
		if b.view.exempt(peer.UID) {
			return gate.Peer{Name: "exempt", Reserve: true}
		}
		return gate.Peer{Name: strconv.FormatUint(uint64(peer.UID), 10), Most: userBodies}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "unknown"
	}
	return gate.Peer{Name: host, Most: userBodies}
}

// receive reads a request's body, of so many bytes at most, into memory.
func receive(w http.ResponseWriter, r *http.Request, size int64) error {
	body := &bytes.Buffer{}
	if r.ContentLength > 0 {
		body.Grow(int(size) + bytes.MinRead) // ReadFrom needs as much to see the end
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, size))
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		err = fmt.Errorf("its body did not come within %s", bodyTimeout)
	}
	if err != nil {
		return api.Fault(api.Invalid, "request: %s", err)
	}
	r.Body = io.NopCloser(body)
	return nil
}
