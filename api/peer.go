package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/cluster"
)

// userHeader names the end user in a request that one agent makes of another.
const userHeader = "Bellows-User"

type peerKey struct{}

// withPeer is http.Server.ConnContext: it asks the kernel once a connection who is at the other end.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	owner, err := peerOf(c)
	if err != nil {
		return context.WithValue(ctx, peerKey{}, err)
	}
	return context.WithValue(ctx, peerKey{}, owner)
}

// withNode is http.Server.ConnContext of connections from other nodes, which say
// who they are with their certificates.
func withNode(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, node{})
}

// node stands for an agent of the cluster, whose certificate has been verified.
type node struct{}

// named is a connection that knows by itself who is at its other end, as one
// that is no unix socket has to.
type named interface{ Peer() (cluster.Owner, error) }

func peerOf(c net.Conn) (cluster.Owner, error) {
	if n, ok := accepted(c).(named); ok {
		return n.Peer()
	}
	cred, err := credOf(c)
	if err != nil {
		return cluster.Owner{}, err
	}
	return cluster.Owner{UID: cred.Uid, GID: cred.Gid, User: userName(cred.Uid)}, nil
}

// uidOf is peerOf without the user's name, which a directory service may be slow to tell.
func uidOf(c net.Conn) (uint32, error) {
	if n, ok := accepted(c).(named); ok {
		owner, err := n.Peer()
		return owner.UID, err
	}
	cred, err := credOf(c)
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// accepted is the connection that another one is made of.
func accepted(c net.Conn) net.Conn {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok {
		return outer.NetConn()
	}
	return c
}

func credOf(c net.Conn) (*unix.Ucred, error) {
	conn, ok := accepted(c).(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("read peer of %T: not a unix socket", c)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return nil, fmt.Errorf("read peer: %w", err)
	}
	return cred, nil
}

func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return u.Username
	}
	return unnamed(uid)
}

// unnamed is how a user is called whose name is not known.
func unnamed(uid uint32) string { return "uid " + strconv.FormatUint(uint64(uid), 10) }

// caller returns whom a request is for: the peer, or the user whom a peer names
// that may speak for others, which only root, the agent's own user and other
// nodes may; those have no user of their own.
func caller(r *http.Request) (cluster.Owner, error) {
	var peer cluster.Owner
	switch v := r.Context().Value(peerKey{}).(type) {
	case cluster.Owner:
		peer = v
	case node:
		return parseUser(r.Header.Get(userHeader))
	case error:
		return cluster.Owner{}, v
	default:
		return cluster.Owner{}, errors.New("read peer: the connection has none")
	}
	end := r.Header.Get(userHeader)
	if end == "" {
		return peer, nil
	}
	if peer.UID != 0 && peer.UID != ownUID() {
		return cluster.Owner{}, fault(Forbidden, "uid %d may not speak for other users: only agents may", peer.UID)
	}
	return parseUser(end)
}

func formatUser(o cluster.Owner) string { return fmt.Sprintf("%d:%d:%s", o.UID, o.GID, o.User) }

func parseUser(s string) (cluster.Owner, error) {
	parts := strings.SplitN(s, ":", 3)
	if len(parts) == 3 {
		uid, err1 := strconv.ParseUint(parts[0], 10, 32)
		gid, err2 := strconv.ParseUint(parts[1], 10, 32)
		if err1 == nil && err2 == nil {
			return cluster.Owner{UID: uint32(uid), GID: uint32(gid), User: parts[2]}, nil
		}
	}
	return cluster.Owner{}, fault(Invalid, "header %s %.80q: write uid:gid:name", userHeader, s)
}

func ownUID() uint32 { return uint32(os.Geteuid()) }

// mayRead reports whether the caller may see what an owner's job writes.
func mayRead(who cluster.Owner, owner uint32) bool { return who.UID == 0 || who.UID == owner }
