package shim

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/agent/owner"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
	"github.com/bellows-ml/bellows/record"
)

// A user database that does not answer passes: it excludes no node.
func TestAnOwnerThatCannotBeAskedForIsTransient(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only an agent of root's asks for owners")
	}
	fails := func(err error) (*record.Failed, time.Duration) {
		m, waits := testMachine(t, 1), time.Duration(0)
		m.order.Owner = cluster.Owner{UID: 54321, User: "no-such-user-here"}
		m.admit(t.Context(), func(_ context.Context, _ string, patience time.Duration) (userdb.Account, error) {
			waits = patience
			return userdb.Account{}, err
		})
		return m.facts.Refused, waits
	}
	failed, waits := fails(userdb.ErrNoAnswer)
	if failed == nil || failed.Kind != record.Transient || !strings.Contains(failed.Reason, "does not answer") {
		t.Errorf("no answer: %+v", failed)
	}
	if waits != owner.Patience {
		t.Errorf("it waits for %s, want %s", waits, owner.Patience)
	}
	if failed, _ = fails(errors.New("unknown user")); failed == nil || failed.Kind != record.NodeRefused {
		t.Errorf("a user that does not exist: %+v", failed)
	}
}
