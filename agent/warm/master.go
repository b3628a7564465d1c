package warm

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/proc"
	"github.com/bellows-ml/bellows/cluster"
)

// Parked workers come to the place where they meet within milliseconds of each other. A rank that is
// there before rank 0 listens is refused, and torch's store has it sleep for half a second then, JAX's
// service for a second: longer than all the rest of a warm start. So the other ranks go on once rank 0 listens, where the job's workers
// were seen to meet at MASTER_PORT and have loaded one of these frameworks (sdk/ahead.py: MEETING), whose servers take any number of
// connections.
const (
	// masterBound is how long they wait for that: less than what they would sleep.
	masterBound = 300 * time.Millisecond
	masterPoll  = 2 * time.Millisecond
)

// awaitMaster returns once a process listens where the world meets, or it has waited long enough. It
// connects and says nothing.
func awaitMaster(ctx context.Context, at cluster.Endpoint, bound time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	poll := time.NewTicker(masterPoll)
	defer poll.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
		if err == nil {
			_ = conn.Close() // nothing was said
			return
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			return // another network than the workers', or no time is left
		}
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
	}
}

// The kernel's numbers for states of a connection.
const (
	tcpEstablished = "01"
	tcpListen      = "0A"
)

// meetAt reports whether a process of this machine listens at the port, or is connected to it.
func meetAt(port int) bool {
	return slices.ContainsFunc([]string{"tcp", "tcp6"}, func(name string) bool {
		f, err := os.Open(string(proc.Root) + "/net/" + name)
		if err != nil {
			return false
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if meetsIn(lines.Text(), port) {
				return true
			}
		}
		return false
	})
}

// meetsIn reads a line of /proc/net/tcp: number, local address, remote address, state.
func meetsIn(line string, port int) bool {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return false
	}
	is := func(address string) bool {
		_, hex, _ := strings.Cut(address, ":")
		n, err := strconv.ParseUint(hex, 16, 16)
		return err == nil && int(n) == port
	}
	return fields[3] == tcpListen && is(fields[1]) || fields[3] == tcpEstablished && is(fields[2])
}
