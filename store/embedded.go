package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// readyTimeout bounds the start: replaying a long log from a slow disk takes seconds.
const readyTimeout = 60 * time.Second

// Server is a running embedded etcd: one that is alone, or one member of several.
type Server struct {
	cfg      EmbeddedConfig
	etcd     *embed.Etcd
	endpoint string
	dir      *dataDir
	streams  context.CancelFunc // ends clients' streams
	once     sync.Once
	closed   chan struct{}
	closeErr error // set when closed is

	tending sync.WaitGroup
	resign  context.CancelFunc // ends tending
	ended   chan struct{}      // closed when the server has ended by itself
	why     error              // set when ended is
	settled sync.Once
	ready   chan struct{} // closed when it has taken writes
	words   lastWords
}

// StartEmbedded starts a server. One that is alone takes writes when this
// returns; one of several may still wait for enough of the others, which a client
// notices: it looks after itself, joins, and says in the log what it misses. A
// member without data waits here, until all others have been heard of.
//
// What stands in its way is an error that says what to do: a data directory that
// is in use, or another cluster's or member's, an address that is taken. So is
// most damage to the data; but etcd's database checks its pages on a goroutine of
// its own, and what it finds there ends the process.
func StartEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Server, error) {
	cfg.Name = cmp.Or(cfg.Name, "bellows")
	dir, err := openDataDir(cfg.DataDir, cfg.Name, cfg.Member)
	if err != nil {
		return nil, fmt.Errorf("start embedded etcd: %w", err)
	}
	life := context.WithoutCancel(ctx)
	streams, cancel := context.WithCancel(life)
	s := &Server{cfg: cfg, dir: dir, streams: cancel, closed: make(chan struct{}), ended: make(chan struct{}), ready: make(chan struct{})}
	s.words.said = make(chan error, 1)
	var b beginning
	err = roomFor(cfg.DataDir)
	if err == nil {
		b, err = cfg.begin(ctx)
	}
	var ec *embed.Config
	if err == nil {
		ec, err = cfg.etcd(streams, b, zapWith(cfg.Log, &s.words))
	}
	if err == nil {
		err = s.start(ctx, ec)
	}
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", cfg.DataDir, err), dir.close())
	}
	tending, resign := context.WithCancel(life)
	s.resign = resign
	s.tending.Go(func() { s.tend(tending) })
	return s, nil
}

// Endpoint returns host:port for Config.Endpoints, with https:// before it where it takes TLS only.
func (s *Server) Endpoint() string { return s.endpoint }

// Ready is closed when the server takes writes: a member of several does when
// more than half of them are there, and it has joined them.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Ended is closed when the server has ended without Close, as a member does that
// was removed from its cluster. Close it then, too.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Why says why the server has ended; it is to be asked once Ended is closed.
func (s *Server) Why() error { return s.why }

// Close stops the server and returns when it is gone, or ctx's error if that
// takes longer; it then goes on stopping, and Close can be called again to wait
// on. Clients' streams are ended first: waiting for them would take seconds.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() {
		s.streams()
		go func() {
			defer close(s.closed)
			s.resign()
			s.tending.Wait()
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
	s.words.started.Store(true)
	s.endpoint = s.etcd.Clients[0].Addr().String()
	if s.cfg.TLS != nil {
		s.endpoint = "https://" + s.endpoint
	}
	if len(ec.ListenPeerUrls) > 0 {
		return nil // there may be nobody yet to be ready with
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case <-s.etcd.Server.ReadyNotify():
		close(s.ready)
		return nil
	case err = <-s.words.said:
		return explainStart(err) // it stands still, and would not close
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
			var is bool
			if err, is = r.(error); !is {
				err = fmt.Errorf("%v", r)
			}
		}
	}()
	return embed.StartEtcd(cfg)
}

// explainStart gives etcd's errors a remedy.
func explainStart(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another program listens there, perhaps another Bellows: stop it or choose another port", err)
	}
	if isFull(err) {
		return fmt.Errorf("%w: %s", err, fullRemedy)
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return err
	}
	return fmt.Errorf("%w: %s", err, damagedRemedy)
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
