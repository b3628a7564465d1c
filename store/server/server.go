package server

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

// Server is a running etcd: a single one, or one member of several.
type Server struct {
	cfg      Config
	etcd     *embed.Etcd
	endpoint string
	dir      *dataDir
	streams  context.CancelFunc // ends clients' streams
	once     sync.Once
	closed   chan struct{}
	closeErr error // set when closed is

	tending   sync.WaitGroup
	stopTend  context.CancelFunc
	ended     chan struct{} // closed when the server has ended without Close
	cause     error         // set before ended is closed
	markReady sync.Once
	ready     chan struct{} // closed when the server accepts writes
	fatal     fatalErrors
}

// Start starts a server. A single server accepts writes when Start returns. A
// member of several may still wait for a quorum: it joins by itself in the
// background, and logs which members it misses. A member without data waits within
// Start until every other member has answered.
//
// An obstacle is an error that names the remedy: a data directory in use, or of
// another cluster or member; an address in use; most damage to the data. One kind
// of damage ends the process: etcd's database checks its pages on a goroutine of
// its own.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg.Name = cmp.Or(cfg.Name, "bellows")
	dir, err := openDataDir(cfg.DataDir, cfg.Name, cfg.Member)
	if err != nil {
		return nil, fmt.Errorf("start embedded etcd: %w", err)
	}
	life := context.WithoutCancel(ctx)
	streams, cancel := context.WithCancel(life)
	s := &Server{cfg: cfg, dir: dir, streams: cancel, closed: make(chan struct{}), ended: make(chan struct{}), ready: make(chan struct{})}
	s.fatal.first = make(chan error, 1)
	var b beginning
	err = roomFor(cfg.DataDir)
	if err == nil {
		b, err = cfg.begin(ctx)
	}
	var ec *embed.Config
	if err == nil {
		ec, err = cfg.etcd(streams, b, zapTo(cfg.Log, &s.fatal))
	}
	if err == nil {
		err = s.start(ctx, ec)
	}
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", cfg.DataDir, err), dir.close())
	}
	tending, stopTend := context.WithCancel(life)
	s.stopTend = stopTend
	s.tending.Go(func() { s.tend(tending) })
	return s, nil
}

// Endpoint returns the address for store.Config.Endpoints: host:port, or https://host:port with TLS.
func (s *Server) Endpoint() string { return s.endpoint }

// Ready is closed when the server accepts writes: a member of several does once it
// has joined and more than half of the members are present.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Ended is closed when the server has ended without Close, for example because it
// was removed from its cluster. Call Close in this case too.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Err returns why the server has ended. It is valid once Ended is closed.
func (s *Server) Err() error { return s.cause }

// Close stops the server and waits until it has stopped or ctx ends. In the latter
// case the server goes on stopping; call Close again to continue waiting. Close ends
// the clients' streams first: waiting for them would take seconds.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() {
		s.streams()
		go func() {
			defer close(s.closed)
			s.stopTend()
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
	s.fatal.started.Store(true)
	s.endpoint = s.etcd.Clients[0].Addr().String()
	if s.cfg.TLS != nil {
		s.endpoint = "https://" + s.endpoint
	}
	if len(ec.ListenPeerUrls) > 0 {
		return nil // the other members may not run yet
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case <-s.etcd.Server.ReadyNotify():
		close(s.ready)
		return nil
	case err = <-s.fatal.first:
		return explainStart(err) // its goroutine is blocked, and Close would wait for it
	case err = <-s.etcd.Err():
	case <-s.etcd.Server.StopNotify():
		err = errors.New("it stopped while starting")
	case <-ctx.Done():
		err = fmt.Errorf("it is not ready: %w", ctx.Err())
	}
	s.etcd.Close()
	return err
}

// startEtcd calls embed.StartEtcd and returns its panics as errors: etcd reports
// a data directory that it cannot read by a panic or a fatal log message.
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

// explainStart adds a remedy to etcd's error.
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

// endWith ends every stream of a client when ctx ends. etcd's handlers of watches
// and lease renewals return when the context of their stream ends; without this
// they delay etcd's Close by seconds in one run of ten.
func endWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		both, cancel := context.WithCancel(ss.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return handle(srv, boundStream{ss, both})
	}
}

// boundStream replaces the context of a stream.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context that ends the stream.
func (s boundStream) Context() context.Context { return s.ctx }
