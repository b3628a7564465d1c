package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/bellows-ml/bellows/record"
)

const (
	// A single member elects itself after about one election timeout, so short
	// ones make the start fast; it has no heartbeats that could come late.
	tickMS     = 50
	electionMS = 250
	// historyRevisions is how much history watches can catch up on. Who is
	// further behind lists again, so this only bounds the disk.
	historyRevisions = 10_000
	// quotaBytes bounds the data. Bellows keeps kilobytes per job; this is
	// etcd's own advice for a big cluster, and protects the disk.
	quotaBytes = 2 << 30
	// readyTimeout bounds the start: replaying a long log from a slow disk takes seconds.
	readyTimeout = 60 * time.Second
)

// EmbeddedConfig says where an embedded server keeps its data and listens.
type EmbeddedConfig struct {
	DataDir string // made if absent; one server at a time
	Client  string // host:port for clients; port 0 or empty = any free one of 127.0.0.1
	// Peer is host:port for other members. Empty: no listener, as a single member needs none.
	Peer string
	// Name is the cluster's; empty = "bellows". A data directory of another cluster is refused.
	Name string
	// MaxTxnOps is how many operations a transaction may have; 0 = record.DefaultMaxTxnOps.
	MaxTxnOps int
	// NoFsync answers before data is on disk: for tests only, a power cut loses what was acknowledged.
	NoFsync bool
	Log     zerolog.Logger
}

// Server is a running embedded etcd with one member.
type Server struct {
	etcd     *embed.Etcd
	endpoint string
	dir      *dataDir
	streams  context.CancelFunc // ends clients' streams
	once     sync.Once
	closed   chan struct{}
	closeErr error // set when closed is
}

// StartEmbedded starts a server and returns once it takes writes. What stands
// in its way is an error that says what to do: a data directory that is in use
// or another cluster's, an address that is taken. So is most damage to the
// data; but etcd's database checks its pages on a goroutine of its own, and what
// it finds there ends the process.
func StartEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Server, error) {
	cfg.Name = cmp.Or(cfg.Name, "bellows")
	dir, err := openDataDir(cfg.DataDir, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("start embedded etcd: %w", err)
	}
	streams, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{dir: dir, streams: cancel, closed: make(chan struct{})}
	ec, err := cfg.etcd(streams)
	if err == nil {
		err = s.start(ctx, ec)
	}
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", cfg.DataDir, err), dir.close())
	}
	return s, nil
}

// Endpoint returns host:port for Config.Endpoints.
func (s *Server) Endpoint() string { return s.endpoint }

// Close stops the server and returns when it is gone, or ctx's error if that
// takes longer; it then goes on stopping, and Close can be called again to wait
// on. Clients' streams are ended first: waiting for them would take seconds.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() {
		s.streams()
		go func() {
			defer close(s.closed)
			s.etcd.Close()
			s.closeErr = s.dir.close()
		}()
	})
	select {
	case <-s.closed:
		return s.closeErr
	case <-ctx.Done():
		return fmt.Errorf("stop embedded etcd: %w", ctx.Err())
	}
}

func (s *Server) start(ctx context.Context, ec *embed.Config) (err error) {
	if s.etcd, err = startEtcd(ec); err != nil {
		return explainStart(err)
	}
	s.endpoint = s.etcd.Clients[0].Addr().String()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case err = <-s.etcd.Err():
	case <-s.etcd.Server.StopNotify():
		err = errors.New("it stopped while starting")
	case <-ctx.Done():
		err = fmt.Errorf("it is not ready: %w", ctx.Err())
	}
	s.etcd.Close()
	return err
}

// startEtcd is embed.StartEtcd with its panics and fatal log messages, which
// are how etcd reports a data directory that it cannot read, as errors.
func startEtcd(cfg *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return embed.StartEtcd(cfg)
}

// explainStart gives etcd's errors a remedy.
func explainStart(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another program listens there, perhaps another Bellows: stop it or choose another port", err)
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return err
	}
	return fmt.Errorf("%w: %s", err, damagedRemedy)
}

// etcd translates the configuration.
func (c EmbeddedConfig) etcd(streams context.Context) (*embed.Config, error) {
	client, err := httpURL("client", cmp.Or(c.Client, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	ec := embed.NewConfig()
	ec.Name = c.Name
	ec.Dir = filepath.Join(c.DataDir, etcdDir)
	ec.ListenClientUrls, ec.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// The address of a member is part of its data, so one without a listener has a constant one.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	ec.ListenPeerUrls = nil
	if c.Peer != "" {
		if peer, err = httpURL("peer", c.Peer); err != nil {
			return nil, err
		}
		ec.ListenPeerUrls = []url.URL{peer}
	}
	ec.AdvertisePeerUrls = []url.URL{peer}
	ec.InitialCluster = ec.InitialClusterFromName(c.Name)
	ec.InitialClusterToken = c.Name
	ec.TickMs, ec.ElectionMs = tickMS, electionMS
	ec.MaxTxnOps = uint(cmp.Or(c.MaxTxnOps, record.DefaultMaxTxnOps))
	ec.AutoCompactionMode = embed.CompactorModeRevision
	ec.AutoCompactionRetention = strconv.Itoa(historyRevisions)
	ec.QuotaBackendBytes = quotaBytes
	ec.UnsafeNoFsync = c.NoFsync
	ec.EnableGRPCGateway = false // its own connection would hold up Close, too
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(c.Log))
	ec.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(endWith(streams))}
	return ec, nil
}

func httpURL(what, address string) (url.URL, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil || strings.Trim(port, "0123456789") != "" {
		return url.URL{}, fmt.Errorf("%s address %q: use an IP address and a port, as in 127.0.0.1:2379", what, address)
	}
	return url.URL{Scheme: "http", Host: address}, nil
}

// endWith ends every stream of a client when ctx ends. etcd's handlers of
// watches and lease renewals return when their stream's context does; left
// alone they hold up etcd's Close for seconds, in one run of ten.
func endWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		both, cancel := context.WithCancel(ss.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return handle(srv, boundStream{ss, both})
	}
}

// boundStream is a stream with another context.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context that ends the stream.
func (s boundStream) Context() context.Context { return s.ctx }
