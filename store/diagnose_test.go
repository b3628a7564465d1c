package store

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/bellows-ml/bellows/record"
)

// An etcd that is full, or has more to do than it can, says nothing about the
// call that it refuses: a save whose record it refuses then is not to be given up.
func TestRefusalsThatPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		named  error // as callers know it; nil = itself
		passes bool
	}{
		{rpctypes.ErrTooManyRequests, ErrBusy, true},
		{rpctypes.ErrNoSpace, ErrNoSpace, true},
		{rpctypes.ErrLeaseNotFound, record.ErrLeaseNotFound, false},
		{rpctypes.ErrRequestTooLarge, nil, false},
		{rpctypes.ErrPermissionDenied, nil, false},
	} {
		if !Refused(c.err) {
			t.Errorf("%v: it is not known that nothing has happened", c.err)
		}
		err := fmt.Errorf("commit: %w", Named(c.err))
		if c.named != nil && !errors.Is(err, c.named) || Passes(err) != c.passes {
			t.Errorf("%v is called %v, passes %t; want %v, %t", c.err, err, Passes(err), c.named, c.passes)
		}
	}
}
