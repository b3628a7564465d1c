package shim

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/agent/rundir"
)

// dialBound is how long a shim may take to accept: it does nothing else there.
const dialBound = 2 * time.Second

// Conn is a connection to a live shim. Its methods may be called from any goroutine.
type Conn struct {
	conn    net.Conn
	reports chan run.Report
	pushing sync.Mutex
}

// Dial connects to the shim of the run directory. Close the connection in the end.
func Dial(dir string) (*Conn, error) {
	if err := rundir.CheckSocketPaths(dir); err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("unix", filepath.Join(dir, rundir.ControlSocket), dialBound)
	if err != nil {
		return nil, fmt.Errorf("connect to shim: %w", err)
	}
	conn := &Conn{conn: c, reports: make(chan run.Report, 1)}
	go conn.read()
	return conn, nil
}

// Push tells the shim what is wanted. It may be repeated at will.
func (c *Conn) Push(w run.Wish) error {
	b, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encode wish: %w", err)
	}
	c.pushing.Lock()
	defer c.pushing.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendBound)); err != nil {
		return fmt.Errorf("push wish: %w", err)
	}
	if _, err := c.conn.Write(append(b, '\n')); err != nil {
		_ = c.conn.Close() // half a line may be on its way
		return fmt.Errorf("push wish: %w", err)
	}
	return nil
}

// Reports gives the shim's report at the connection's beginning and after each
// change. A report not fetched is replaced by the next. The channel is closed
// when the connection is.
func (c *Conn) Reports() <-chan run.Report { return c.reports }

// Close ends the connection. The shim goes on as before.
func (c *Conn) Close() error { return c.conn.Close() }

func (c *Conn) read() {
	defer close(c.reports)
	lines(c.conn, maxMessage, func(line []byte) bool {
		var r run.Report
		if json.Unmarshal(line, &r) != nil {
			return false // no shim of ours; its readers see the channel closed
		}
		select {
		case <-c.reports:
		default:
		}
		c.reports <- r
		return true
	})
	_ = c.conn.Close()
}
