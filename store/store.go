package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/bellows-ml/bellows/record"
)

// Defaults of Config.
const (
	// DefaultDialTimeout is how long Open waits: longer than one election of an etcd with three members.
	DefaultDialTimeout = 5 * time.Second
	// DefaultCallTimeout bounds a call whose context has no earlier deadline.
	DefaultCallTimeout = 5 * time.Second
	// DefaultLeaderTTL is how long a dead leader blocks its successor. etcd's
	// own limit is about 2 s; twice that forgives one lost renewal.
	DefaultLeaderTTL = 4 * time.Second
	// DefaultStallAfter is how long a watch may be silent when asked for a
	// sign of life. A loaded etcd answers late; the records are level-triggered,
	// so a few seconds of blindness cost time and nothing else.
	DefaultStallAfter = 6 * time.Second
)

// Config says which etcd, and how patient to be. Only Endpoints is needed.
type Config struct {
	Endpoints []string // host:port, or https://host:port
	TLS       *tls.Config
	Username  string
	Password  string

	DialTimeout time.Duration // of Open; 0 = DefaultDialTimeout
	CallTimeout time.Duration // of each later call; 0 = DefaultCallTimeout
	LeaderTTL   time.Duration // of a candidate's lease; 0 = DefaultLeaderTTL
	// StallAfter is how long a watch may be silent; 0 = DefaultStallAfter.
	StallAfter time.Duration
	// AnyMember is content with one member that answers, whether or not there is a
	// quorum: for looking at an etcd, and for nothing that needs to be right.
	AnyMember bool
	// MaxTxnOps is etcd's --max-txn-ops; 0 = record.DefaultMaxTxnOps.
	MaxTxnOps int

	// Observe is told of each call that was made; nil = nobody is. It is called by
	// whoever called, and must not block.
	Observe func(Call)

	Log zerolog.Logger
}

// Call is one call of etcd, for those who watch how it does.
type Call struct {
	Kind string // txn, get, list (one page of it), grant, renew, revoke or status
	// Result is ok or error; of a txn applied, conflict, or error where it is not
	// known whether it was applied, and refused where etcd would not.
	Result string
	Took   time.Duration
}

// observed is deferred with a call's error, when it has begun.
func (s *Store) observed(kind string, began time.Time, err *error) {
	if s.cfg.Observe == nil {
		return
	}
	result := "ok"
	if *err != nil {
		result = "error"
	}
	s.cfg.Observe(Call{Kind: kind, Result: result, Took: time.Since(began)})
}

// Store is a connection to etcd, safe for concurrent use.
type Store struct {
	cfg    Config
	client *clientv3.Client
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool           // under mu
	wg     sync.WaitGroup // watches and leaderships; added to under mu
}

// ErrUnreachable is the error of Open when no endpoint answers.
var ErrUnreachable = errors.New("etcd does not answer")

// Open connects, and returns once etcd has answered a linearizable read, so
// that what is wrong with the address, the certificate or the password shows
// here. ctx bounds Open only.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("open etcd: no endpoint: set --etcd to host:port, several separated by commas")
	}
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, DefaultDialTimeout)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, DefaultCallTimeout)
	cfg.LeaderTTL = cmp.Or(cfg.LeaderTTL, DefaultLeaderTTL)
	cfg.StallAfter = cmp.Or(cfg.StallAfter, DefaultStallAfter)
	cfg.MaxTxnOps = cmp.Or(cfg.MaxTxnOps, record.DefaultMaxTxnOps)
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	dial, stop := context.WithTimeout(ctx, cfg.DialTimeout)
	defer stop()
	client, err := clientv3.New(clientv3.Config{
		Context:     life,
		Endpoints:   cfg.Endpoints,
		TLS:         cfg.TLS,
		Username:    cfg.Username,
		Password:    cfg.Password,
		DialTimeout: cfg.DialTimeout,
		// A peer that vanished without a word shows within 13 s. Shorter than
		// 10 s, and a server may take the pings for an attack.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect())},
		Logger:               zap.NewNop(), // whatever it would say, a call returns as an error
	})
	if err == nil {
		if err = cfg.greet(dial, client); err == nil {
			if err = cfg.oneCluster(dial, client); err != nil {
				cancel()
				return nil, errors.Join(err, ignoreCanceled(client.Close()))
			}
			return &Store{cfg: cfg, client: client, ctx: life, cancel: cancel}, nil
		}
	}
	cancel()
	if client != nil {
		err = errors.Join(err, ignoreCanceled(client.Close()))
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("open etcd at %s: %w", cfg.addresses(), ctx.Err())
	}
	return nil, cfg.explain(ctx, err)
}

// greet returns once etcd has answered.
func (c Config) greet(ctx context.Context, client *clientv3.Client) error {
	var how []clientv3.OpOption
	if c.AnyMember {
		how = append(how, clientv3.WithSerializable())
	}
	_, err := client.Get(ctx, record.MetaKey, how...)
	return err
}

// Close ends every watch and leadership of this store, waits for them, and
// disconnects. Leases are not revoked: they expire, or live on for a successor
// of this process that renews them.
func (s *Store) Close() error {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
	if err := ignoreCanceled(s.client.Close()); err != nil {
		return fmt.Errorf("close connection to etcd at %s: %w", s.cfg.addresses(), err)
	}
	return nil
}

// spawn runs f, which ends soon after the store's context does, so that Close
// waits for it. Once the store is closed it runs f on the spot.
func (s *Store) spawn(f func()) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		f()
		return
	}
	s.wg.Go(f)
	s.mu.Unlock()
}

// call bounds a call in time.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.CallTimeout)
}

// reconnect says how eagerly to look for an etcd that went away. gRPC's own
// pause grows to two minutes, in which a node would lose its lease after etcd is
// back; a second costs nothing.
func reconnect() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: 3 * time.Second,
	}
}

func (c Config) addresses() string { return strings.Join(c.Endpoints, ",") }

// ignoreCanceled drops the error that only says that the connection was closed on purpose.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
