package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/userdb"
)

type peerKey struct{}

// localPeer is a process on this machine, as the kernel knows it, and how to learn
// its user's name.
type localPeer struct {
	cluster.Owner

	name nameFunc
}

// nameFunc returns a user's name, as userdb.Name does.
type nameFunc func(ctx context.Context, uid uint32) (string, error)

// withPeer returns an http.Server.ConnContext that asks the kernel once for each
// connection who the peer is. It does not ask for the user's name: it runs between
// one connection and the next, and the name service may be slow or hang.
func withPeer(name nameFunc) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, c net.Conn) context.Context {
		owner, err := peerOf(c)
		if err != nil {
			return context.WithValue(ctx, peerKey{}, err)
		}
		return context.WithValue(ctx, peerKey{}, localPeer{owner, name})
	}
}

// owner returns the peer with its user's name, or with a stand-in for it.
func (p localPeer) owner(ctx context.Context) cluster.Owner {
	if p.User != "" {
		return p.Owner
	}
	p.User = unnamed(p.UID)
	if name, err := p.name(ctx, p.UID); err == nil {
		p.User = name
	}
	return p.Owner
}

// withNode is the http.Server.ConnContext of connections from other nodes, whose
// certificates name them.
func withNode(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, node{})
}

// node stands for an agent of the cluster, whose certificate has been verified.
type node struct{}

// named is a connection that knows its peer by itself, because it is no unix socket.
type named interface{ Peer() (cluster.Owner, error) }

// peerOf returns the ids of the process at the other end of a connection.
func peerOf(c net.Conn) (cluster.Owner, error) {
	if n, ok := accepted(c).(named); ok {
		return n.Peer()
	}
	cred, err := credOf(c)
	if err != nil {
		return cluster.Owner{}, err
	}
	return cluster.Owner{UID: cred.Uid, GID: cred.Gid}, nil
}

// accepted returns the connection that another one wraps.
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

// userName returns the name of a user, for a message.
func userName(uid uint32) string {
	return localPeer{Owner: cluster.Owner{UID: uid}, name: userdb.Name}.owner(context.Background()).User
}

// unnamed stands for the name of a user whose name is not known.
func unnamed(uid uint32) string { return "uid " + strconv.FormatUint(uint64(uid), 10) }

// caller returns the user that a request is for: the peer, or the user that the peer
// names. Only root, the agent's own user and other nodes may name another user; a
// node must.
func caller(r *http.Request) (cluster.Owner, error) {
	var peer localPeer
	switch v := r.Context().Value(peerKey{}).(type) {
	case localPeer:
		peer = v
	case node:
		return parseUser(r.Header.Get(api.UserHeader))
	case error:
		return cluster.Owner{}, v
	default:
		return cluster.Owner{}, errors.New("read peer: the connection has none")
	}
	end := r.Header.Get(api.UserHeader)
	if end == "" {
		return peer.owner(r.Context()), nil
	}
	if peer.UID != 0 && peer.UID != ownUID() {
		return cluster.Owner{}, api.Fault(api.Forbidden, "uid %d may not speak for other users: only agents may", peer.UID)
	}
	return parseUser(end)
}

func parseUser(s string) (cluster.Owner, error) {
	parts := strings.SplitN(s, ":", 3)
	if len(parts) == 3 {
		uid, err1 := strconv.ParseUint(parts[0], 10, 32)
		gid, err2 := strconv.ParseUint(parts[1], 10, 32)
		if err1 == nil && err2 == nil {
			return cluster.Owner{UID: uint32(uid), GID: uint32(gid), User: parts[2]}, nil
		}
	}
	return cluster.Owner{}, api.Fault(api.Invalid, "header %s %.80q: write uid:gid:name", api.UserHeader, s)
}

func ownUID() uint32 { return uint32(os.Geteuid()) }

// mayRead reports whether the caller may see what an owner's job writes.
func mayRead(who cluster.Owner, owner uint32) bool { return who.UID == 0 || who.UID == owner }
