package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
)

// What an agent that starts or ends may cause is waited for.
func TestWhatLasts(t *testing.T) {
	t.Parallel()
	c := NewClient("/s")
	for _, x := range []struct {
		err  error
		want bool
	}{
		{c.explain(t.Context(), distrust{io.EOF}), false},
		{c.explain(t.Context(), distrust{fmt.Errorf("read: %w", syscall.ECONNRESET)}), false},
		{c.explain(t.Context(), distrust{context.DeadlineExceeded}), false},
		{c.explain(t.Context(), distrust{errors.New("the certificate shown is of node n1")}), true},
		{c.explain(t.Context(), errors.New("remote error: tls: bad certificate")), true},
		{c.explain(t.Context(), syscall.ECONNREFUSED), false},
		{errors.New("read answer: unexpected end of JSON input"), false},
		{Fault(Unavailable, "no etcd"), false},
		{Fault(NotFound, "no job"), false},
		{Fault(Forbidden, "not yours"), true},
		{Fault(Limited, "too many connections"), false},
		{fmt.Errorf("ask: %w", Fault(Invalid, "rank x")), true},
	} {
		if got := Lasts(x.err); got != x.want {
			t.Errorf("%v: lasts is %t, want %t", x.err, got, x.want)
		}
	}
}
