package owner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
)

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

func TestAnOrdinaryUserRunsOnlyItsOwnJobs(t *testing.T) {
	if os.Geteuid() == 0 {
		_, err := Identify(t.Context(), cluster.Owner{UID: 0, User: "root"}, userdb.Find)
		if err != nil {
			t.Errorf("root's own job: %v", err)
		}
		return
	}
	if _, err := Identify(t.Context(), cluster.Owner{UID: 0, User: "root"}, userdb.Find); err == nil {
		t.Error("root's job was accepted")
	}
}
