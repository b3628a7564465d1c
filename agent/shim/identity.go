package shim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// lookupBound is how long a directory service may take to name a user.
const lookupBound = 5 * time.Second

// identity is whom the workers run as. The zero value is whoever the shim is.
type identity struct {
	cred *syscall.Credential // nil: nothing to switch
}

// identifyOwner finds the owner's identity on this node. A node that knows the
// user not at all, or under another number, refuses: files would get wrong owners.
func identifyOwner(ctx context.Context, o cluster.Owner) (identity, error) {
	if self := os.Geteuid(); uint32(self) == o.UID {
		return identity{}, nil
	} else if self != 0 {
		return identity{}, fmt.Errorf("owner %s (uid %d): this node's agent runs as uid %d and can only run that user's jobs: run the agent as root",
			o.User, o.UID, self)
	}
	groups, err := lookupGroups(ctx, o)
	if err != nil {
		return identity{}, err
	}
	return identity{cred: &syscall.Credential{Uid: o.UID, Gid: o.GID, Groups: groups}}, nil
}

func lookupGroups(ctx context.Context, o cluster.Owner) ([]uint32, error) {
	u, err := user.Lookup(o.User)
	if err != nil {
		// Built without cgo, package user reads /etc/passwd only; the system knows more.
		return askGroups(ctx, o)
	}
	if err = checkUID(o, u.Uid); err != nil {
		return nil, err
	}
	names, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("owner %s: list groups: %w", o.User, err)
	}
	return parseGroups(o, names)
}

// askGroups asks the system's own name service, by the tools that come with it.
func askGroups(ctx context.Context, o cluster.Owner) ([]uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupBound)
	defer cancel()
	if err := cluster.CheckName(o.User); err != nil { // never an option for a program
		return nil, fmt.Errorf("owner %q: %w", o.User, err)
	}
	passwd, err := exec.CommandContext(ctx, "getent", "passwd", "--", o.User).Output()
	fields := strings.Split(string(passwd), ":")
	if err != nil || len(fields) < 4 {
		return nil, fmt.Errorf("owner %s (uid %d) is not known on this node: create the user with the same uid on every node", o.User, o.UID)
	}
	if err = checkUID(o, fields[2]); err != nil {
		return nil, err
	}
	groups, err := exec.CommandContext(ctx, "id", "-G", "--", o.User).Output()
	if err != nil {
		return nil, fmt.Errorf("owner %s: list groups: %w", o.User, err)
	}
	return parseGroups(o, strings.Fields(string(groups)))
}

func checkUID(o cluster.Owner, uid string) error {
	if uid != strconv.FormatUint(uint64(o.UID), 10) {
		return fmt.Errorf("owner %s has uid %d where the job was submitted and uid %s on this node: give the user one uid on every node",
			o.User, o.UID, uid)
	}
	return nil
}

func parseGroups(o cluster.Owner, names []string) ([]uint32, error) {
	var groups []uint32
	for _, name := range names {
		gid, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("owner %s: group %q is not a number", o.User, name)
		}
		groups = append(groups, uint32(gid))
	}
	return groups, nil
}
