package owner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
)

const (
	// Patience is how long a lookup of an owner waits for the user database, of
	// which nothing but the start or the task waits. It is well below the half minute
	// that a start may take, also with what follows in toolBound.
	Patience = 15 * time.Second
	// toolBound is how long the tools of the name service may take.
	toolBound = 5 * time.Second
)

// Finder returns a user's account, as userdb.Find does.
type Finder func(ctx context.Context, name string, patience time.Duration) (userdb.Account, error)

// Identity is the user that the workers run as. The zero value is the shim's own.
type Identity struct {
	Cred *syscall.Credential // nil: nothing to switch
}

// Identify finds the owner's identity on this node. A node that knows the
// user not at all, or under another number, refuses: files would get wrong owners.
func Identify(ctx context.Context, o cluster.Owner, find Finder) (Identity, error) {
	if self := os.Geteuid(); uint32(self) == o.UID {
		return Identity{}, nil
	} else if self != 0 {
		return Identity{}, fmt.Errorf("owner %s (uid %d): this node's agent runs as uid %d and can only run that user's jobs: run the agent as root",
			o.User, o.UID, self)
	}
	m, err := lookupGroups(ctx, o, find)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Cred: m.credential(o)}, nil
}

// Credential is a user's identity on this node as the system has it now: a group
// that the user was in when the job was submitted may have been taken away since. Its
// error wraps userdb.ErrNoAnswer where asking again may help.
func Credential(ctx context.Context, o cluster.Owner) (*syscall.Credential, error) {
	m, err := lookupGroups(ctx, o, userdb.Find)
	if err != nil {
		return nil, err
	}
	return m.credential(o), nil
}

// membership is what the system says of a user's groups.
type membership struct {
	primary uint32
	groups  []uint32
}

// credential has the group that the job was submitted with, as after newgrp, only
// while the user is still in it.
func (m membership) credential(o cluster.Owner) *syscall.Credential {
	c := &syscall.Credential{Uid: o.UID, Gid: m.primary, Groups: m.groups}
	if slices.Contains(m.groups, o.GID) {
		c.Gid = o.GID
	}
	return c
}

func lookupGroups(ctx context.Context, o cluster.Owner, find Finder) (membership, error) {
	account, err := find(ctx, o.User, Patience)
	switch {
	case errors.Is(err, userdb.ErrNoAnswer) || ctx.Err() != nil:
		return membership{}, fmt.Errorf("owner %s: %w", o.User, err)
	case err != nil:
		// Built without cgo, package userdb reads /etc/passwd only; the system knows more.
		return askGroups(ctx, o)
	}
	if err = checkUID(o, account.UID); err != nil {
		return membership{}, err
	}
	return parseGroups(o, account.GID, account.Groups)
}

// askGroups asks the system's own name service, by the tools that come with it.
func askGroups(ctx context.Context, o cluster.Owner) (membership, error) {
	ctx, cancel := context.WithTimeout(ctx, toolBound)
	defer cancel()
	if err := cluster.CheckName(o.User); err != nil { // never an option for a program
		return membership{}, fmt.Errorf("owner %q: %w", o.User, err)
	}
	passwd, err := exec.CommandContext(ctx, "getent", "passwd", "--", o.User).Output()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return membership{}, fmt.Errorf("owner %s: %w", o.User, userdb.ErrNoAnswer)
	}
	fields := strings.Split(string(passwd), ":")
	if err != nil || len(fields) < 4 {
		return membership{}, fmt.Errorf("owner %s (uid %d) is not known on this node: create the user with the same uid on every node", o.User, o.UID)
	}
	if err = checkUID(o, fields[2]); err != nil {
		return membership{}, err
	}
	groups, err := exec.CommandContext(ctx, "id", "-G", "--", o.User).Output()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = userdb.ErrNoAnswer
	}
	if err != nil {
		return membership{}, fmt.Errorf("owner %s: list groups: %w", o.User, err)
	}
	return parseGroups(o, fields[3], strings.Fields(string(groups)))
}

func checkUID(o cluster.Owner, uid string) error {
	if uid != strconv.FormatUint(uint64(o.UID), 10) {
		return fmt.Errorf("owner %s has uid %d where the job was submitted and uid %s on this node: give the user one uid on every node",
			o.User, o.UID, uid)
	}
	return nil
}

func parseGroups(o cluster.Owner, primary string, names []string) (membership, error) {
	var m membership
	for i, name := range append([]string{primary}, names...) {
		gid, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return membership{}, fmt.Errorf("owner %s: group %q is not a number", o.User, name)
		}
		if i == 0 {
			m.primary = uint32(gid)
		}
		if !slices.Contains(m.groups, uint32(gid)) {
			m.groups = append(m.groups, uint32(gid))
		}
	}
	return m, nil
}

// Do runs f on a thread whose real user and group are the owner's. Its effective ones, which files and other
// processes are opened by, stay as they are.
func (id Identity) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := func(uid, gid int) error {
		// The kernel's own calls are for this thread, those of package syscall for all.
		const keep = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), keep, keep); errno != 0 {
			return errno
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), keep, keep); errno != 0 {
			return errno
		}
		return nil
	}
	uid, gid := unix.Getuid(), unix.Getgid()
	err := set(int(id.Cred.Uid), int(id.Cred.Gid))
	if err == nil {
		err = f()
	}
	if errBack := set(uid, gid); errBack != nil { // the thread is of no use any more, and Go would use it
		panic(fmt.Sprintf("shim: take the real user back: %v", errBack))
	}
	return err
}
