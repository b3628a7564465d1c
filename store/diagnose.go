package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bellows-ml/bellows/record"
)

// ErrNoSpace means that etcd has reached its quota: it refuses every write but deletions until an operator frees space.
var ErrNoSpace = errors.New("etcd is out of space: compact and defragment it or raise its quota, then disarm its NOSPACE alarm")

// ErrBusy means that etcd is overloaded: it has not executed the call, and may accept it a moment later.
var ErrBusy = errors.New("etcd is overloaded: it has more writes to apply than it takes at a time")

// Passes reports whether etcd has refused a call for a temporary reason that has
// nothing to do with the call: the same one may succeed later.
func Passes(err error) bool { return errors.Is(err, ErrNoSpace) || errors.Is(err, ErrBusy) }

// refusalTimeout is how long a server's refusal of a certificate may take.
const refusalTimeout = 300 * time.Millisecond

// probeTimeout bounds the diagnosis of one endpoint that did not answer.
const probeTimeout = time.Second

// handshakeTimeout bounds the handshake of that diagnosis: a refused certificate is
// worth the wait, for it is told from a server that hangs by nothing else.
const handshakeTimeout = 5 * time.Second

// explain turns an error of Open into one that names the cause and the remedy. gRPC
// reports a refused connection, a missing certificate and a wrong CA alike as a
// deadline exceeded, so explain probes the endpoints itself.
func (c Config) explain(ctx context.Context, err error) error {
	switch code := status.Code(err); {
	case errors.Is(err, rpctypes.ErrAuthFailed), code == codes.Unauthenticated:
		return fmt.Errorf("open etcd at %s as user %q: %w: check user name and password", c.addresses(), c.Username, err)
	case errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrPermissionDenied), code == codes.PermissionDenied:
		return fmt.Errorf("open etcd at %s as user %q: %w: give that user a role with read and write access to %s",
			c.addresses(), c.Username, err, record.Root)
	}
	found := make([]string, 0, len(c.Endpoints))
	for _, endpoint := range c.Endpoints {
		found = append(found, endpoint+": "+c.probe(ctx, endpoint))
	}
	return fmt.Errorf("%w at %s within %v: start it or set --etcd (%s)",
		ErrUnreachable, c.addresses(), c.DialTimeout, strings.Join(found, "; "))
}

// oneCluster refuses endpoints that belong to different etcds: the client would
// spread its calls over them, so that a lease, a compare and a read could each
// reach a different etcd. Endpoints that do not answer are not asked twice.
func (c Config) oneCluster(ctx context.Context, client *clientv3.Client) error {
	if len(c.Endpoints) == 1 {
		return nil
	}
	ids := make([]uint64, len(c.Endpoints)) // 0 = unknown
	var wg sync.WaitGroup
	for i, endpoint := range c.Endpoints {
		wg.Go(func() {
			probe, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			if answer, err := client.Status(probe, endpoint); err == nil {
				ids[i] = answer.Header.GetClusterId()
			}
		})
	}
	wg.Wait()
	first := -1
	for i, id := range ids {
		switch {
		case id == 0:
		case first < 0:
			first = i
		case id != ids[first]:
			return fmt.Errorf("open etcd at %s: %s (cluster %x) and %s (cluster %x) are not members of one etcd: set --etcd to the members of one",
				c.addresses(), c.Endpoints[first], ids[first], c.Endpoints[i], id)
		}
	}
	return nil
}

// Probe describes what one of etcd's endpoints does with a connection.
func (s *Store) Probe(ctx context.Context, endpoint string) string { return s.cfg.probe(ctx, endpoint) }

// probe describes what an endpoint does with a connection.
func (c Config) probe(whole context.Context, endpoint string) string {
	ctx, cancel := context.WithTimeout(whole, probeTimeout)
	defer cancel()
	scheme, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, address = "", endpoint
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if c.TLS == nil && scheme != "https" {
		return "connected, but etcd does not answer there: it hangs, has no quorum, wants TLS, or something else listens"
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	shake, stop := context.WithTimeout(whole, handshakeTimeout)
	defer stop()
	switch err = secure.HandshakeContext(shake); {
	case errors.Is(err, context.DeadlineExceeded):
		return "connected, but no answer: etcd hangs, or has just been started and waits for a quorum; the log of that server names the missing members"
	case err != nil:
		return "TLS: " + err.Error()
	}
	// With TLS 1.3 the client's handshake ends before the server has verified the
	// client's certificate: a refusal arrives with the first read.
	_ = secure.SetReadDeadline(time.Now().Add(refusalTimeout))
	if _, err = secure.Read(make([]byte, 1)); err != nil && strings.Contains(err.Error(), "remote error") {
		return "TLS: it refuses this client's certificate: " + err.Error()
	}
	return "TLS is established, but etcd does not answer: it hangs, has no quorum, or refuses this client's certificate"
}

// Named translates an error of etcd into this package's and record's errors.
func Named(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return record.ErrLeaseNotFound
	case errors.Is(err, rpctypes.ErrNoSpace):
		return ErrNoSpace
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return ErrBusy
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps), oversized(err):
		return fmt.Errorf("%w (%w)", record.ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrCompacted):
		return record.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return record.ErrFuture
	}
	return err
}

// oversized reports whether gRPC, here or at the server, has refused a message for
// its size. gRPC has one code for this and for an overloaded etcd.
func oversized(err error) bool {
	return errorCode(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "message larger than max")
}

// Refused reports whether etcd has refused a call: it had no effect, and repeating
// it at once would fail again. See Passes for refusals that are temporary.
func Refused(err error) bool {
	switch errorCode(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.ResourceExhausted:
		return true
	case codes.OK, codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Aborted,
		codes.Internal, codes.Unavailable, codes.DataLoss:
		return false
	}
	return false
}

// errorCode returns the gRPC code of an error, translated into etcd's own type or not.
func errorCode(err error) codes.Code {
	if etcd, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return etcd.Code()
	}
	return status.Code(err)
}
