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
	// own limit is about 2 s; twice that tolerates one lost renewal.
	DefaultLeaderTTL = 4 * time.Second
	// DefaultStallAfter is how long a watch may leave a progress request
	// unanswered. A loaded etcd answers late; decisions are level-triggered, so a
	// few seconds without changes cost time and nothing else.
	DefaultStallAfter = 6 * time.Second
)

// Config selects an etcd and sets the timeouts. Only Endpoints is required.
type Config struct {
	Endpoints []string // host:port, or https://host:port
	TLS       *tls.Config
	Username  string
	Password  string

	DialTimeout time.Duration // of Open; 0 = DefaultDialTimeout
	CallTimeout time.Duration // of each later call; 0 = DefaultCallTimeout
	LeaderTTL   time.Duration // of a candidate's lease; 0 = DefaultLeaderTTL
	// StallAfter is how long a watch may leave a progress request unanswered; 0 = DefaultStallAfter.
	StallAfter time.Duration
	// AnyMember accepts an answer of one member without a quorum: for inspecting an
	// etcd, and not for decisions, since the answer may be stale.
	AnyMember bool
	// MaxTxnOps is etcd's --max-txn-ops; 0 = record.DefaultMaxTxnOps.
	MaxTxnOps int

	// Clock is what leaders count their leases by; nil = Boottime. For tests.
	Clock func() time.Duration

	// Observe is called after each call, by the goroutine that made it, and must not
	// block; nil = not called.
	Observe func(Call)

	Log zerolog.Logger
}

// Call describes one finished call of etcd, for metrics.
type Call struct {
	Kind string // txn, get, list (one page of it), grant, renew, revoke or status
	// Result is ok or error. For a txn it is applied, conflict, refused (etcd
	// returned an error and did nothing), or error (the outcome is not known).
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

// Open connects, and returns once etcd has answered a linearizable read, so that a
// wrong address, certificate or password is an error of Open. ctx bounds Open only.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("open etcd: no endpoint: set --etcd to host:port, several separated by commas")
	}
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, DefaultDialTimeout)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, DefaultCallTimeout)
	cfg.LeaderTTL = cmp.Or(cfg.LeaderTTL, DefaultLeaderTTL)
	cfg.StallAfter = cmp.Or(cfg.StallAfter, DefaultStallAfter)
	cfg.MaxTxnOps = cmp.Or(cfg.MaxTxnOps, record.DefaultMaxTxnOps)
	if cfg.Clock == nil {
		cfg.Clock = Boottime
	}
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
		// This detects a peer that vanished silently within 13 s. With less than
		// 10 s, a server may treat the pings as an attack.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect())},
		Logger:               zap.NewNop(), // each call returns its error
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
// disconnects. It does not revoke leases: they expire, or a successor of this
// process renews them.
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

// spawn runs f on a goroutine that Close waits for; f ends soon after the store's
// context. Once the store is closed, spawn runs f synchronously.
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

// Client returns the connection itself, for package store/server, which administers
// the etcd behind it. Records are read and written with the methods of Store.
func (s *Store) Client() *clientv3.Client { return s.client }

// WithCallTimeout returns a context that ends after Config.CallTimeout at the latest.
func (s *Store) WithCallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.CallTimeout)
}

// reconnect sets the pauses between attempts to connect again. gRPC's own pause
// grows to two minutes, so that a node could lose its lease after etcd is back.
func reconnect() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: 3 * time.Second,
	}
}

func (c Config) addresses() string { return strings.Join(c.Endpoints, ",") }

// ignoreCanceled drops the error of a connection that was closed on purpose.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
