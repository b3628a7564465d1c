package membership

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/internal/gate"
)

const (
	// maxStreams bounds the streams that other nodes, or strangers, have open here.
	// memberlist reads each on a goroutine for up to streamTimeout. A cluster of 200
	// nodes opens a few at a time.
	maxStreams = 64
	// maxStreamsOfOne bounds those of one address, so that one machine leaves room
	// for the others.
	maxStreamsOfOne = 32
	// bindAttempts bounds the search for a port that is free for TCP and UDP.
	bindAttempts = 10
	// refusalLogEvery spaces the log lines about refused streams.
	refusalLogEvery = 10 * time.Second
)

// transport is memberlist's transport with its incoming streams bounded. memberlist
// itself starts a goroutine for every connection that anyone opens.
type transport struct {
	*memberlist.NetTransport

	log     zerolog.Logger
	bound   *gate.Bound
	streams chan net.Conn
	pass    sync.WaitGroup

	shutdown sync.Once
	ending   chan struct{} // closed when streams are not passed on any more
	ended    chan struct{} // closed when no stream arrives any more
}

// newTransport listens on the address of conf and writes the port that it got to conf.
func newTransport(conf *memberlist.Config, log zerolog.Logger) (*transport, error) {
	attempts := 1
	if conf.BindPort == 0 {
		attempts = bindAttempts // the kernel chooses the port for TCP only, and UDP may have it in use
	}
	var inner *memberlist.NetTransport
	var err error
	for range attempts {
		inner, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{conf.BindAddr}, BindPort: conf.BindPort, Logger: conf.Logger,
		})
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if conf.BindPort == 0 {
		conf.BindPort = inner.GetAutoBindPort()
		conf.AdvertisePort = conf.BindPort
	}
	t := &transport{
		NetTransport: inner, log: log, bound: gate.NewBound(maxStreams, 0),
		streams: make(chan net.Conn), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	t.pass.Go(t.passStreams)
	return t, nil
}

// StreamCh returns the streams that are within the bounds.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

func (t *transport) passStreams() {
	var logged time.Time
	for {
		var c net.Conn
		select {
		case c = <-t.NetTransport.StreamCh():
		case <-t.ended:
			return
		}
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			host = "unknown"
		}
		leave, ok := t.bound.Enter(gate.Peer{Name: host, Most: maxStreamsOfOne})
		if !ok {
			if time.Since(logged) > refusalLogEvery {
				logged = time.Now()
				t.log.Warn().Str("from", host).Int("most", maxStreams).Int("of_one_address", maxStreamsOfOne).
					Msg("too many streams are open: closed one without reading it")
			}
			_ = c.Close() // nothing was read from it
			continue
		}
		counted := gate.Counted(c, leave)
		select {
		case t.streams <- counted:
		case <-t.ending:
			_ = counted.Close() // as above
		}
	}
}

// Shutdown stops listening and waits for the listeners' goroutines. These wait until
// their last stream and packet is taken, so Shutdown takes them: memberlist may have
// stopped reading, or, if its start has failed, may never have begun.
func (t *transport) Shutdown() error {
	var err error
	t.shutdown.Do(func() {
		close(t.ending)
		var drain sync.WaitGroup
		drain.Go(func() {
			for {
				select {
				case <-t.PacketCh():
				case <-t.ended:
					return
				}
			}
		})
		err = t.NetTransport.Shutdown()
		close(t.ended)
		drain.Wait()
		t.pass.Wait()
	})
	return err
}
