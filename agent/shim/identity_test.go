package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	if waits != OwnerPatience {
		t.Errorf("it waits for %s, want %s", waits, OwnerPatience)
	}
	if failed, _ = fails(errors.New("unknown user")); failed == nil || failed.Kind != record.NodeRefused {
		t.Errorf("a user that does not exist: %+v", failed)
	}
}

// Tools of the name service that hang do not say that there is no such user.
func TestToolsThatHangAreNoAnswer(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "getent"), []byte("#!/bin/sh\nexec /bin/sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := askGroups(ctx, cluster.Owner{UID: 54321, User: "ada"}); !errors.Is(err, userdb.ErrNoAnswer) {
		t.Errorf("%v", err)
	}
}

// A group that the owner has been taken out of since the job was submitted is not
// given to its workers, however often the job has been restarted since.
func TestGroupsAreThoseOfNow(t *testing.T) {
	t.Parallel()
	now, err := parseGroups(cluster.Owner{User: "ada"}, "1000", []string{"1000", "27", "4000"})
	if err != nil {
		t.Fatal(err)
	}
	for submitted, want := range map[uint32]uint32{1000: 1000, 4000: 4000, 5000: 1000, 0: 1000} {
		c := now.credential(cluster.Owner{UID: 1000, GID: submitted, User: "ada"})
		if c.Gid != want || c.Uid != 1000 || !slices.Equal(c.Groups, []uint32{1000, 27, 4000}) {
			t.Errorf("submitted as group %d: %+v, want group %d", submitted, c, want)
		}
	}
}

// The system is asked, and not the job: who it knows otherwise, or not at all, is refused.
func TestIdentityIsTheSystems(t *testing.T) {
	t.Parallel()
	self := uint32(os.Getuid())
	ordinary := cluster.Owner{UID: 65534, GID: 4242, User: "nobody"}
	c, err := Credential(t.Context(), ordinary)
	if err != nil || c.Gid == 4242 || slices.Contains(c.Groups, 4242) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err = Credential(t.Context(), cluster.Owner{UID: self + 1, User: "root"}); err == nil && self == 0 {
		t.Error("root under another uid is not refused")
	}
	if _, err = Credential(t.Context(), cluster.Owner{UID: 54321, User: "no-such-user-here"}); err == nil {
		t.Error("an unknown user is not refused")
	}
}
