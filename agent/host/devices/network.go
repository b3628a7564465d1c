package devices

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
)

const (
	// interfaceEvery is how often the training interface is looked at: how late a
	// new address of it is known to others.
	interfaceEvery = 5 * time.Second
	// longestInterface is the kernel's limit for a name, in bytes (IFNAMSIZ − 1).
	longestInterface = 15

	interfaceLane agent.Lane = "interface"
)

// network looks at the interface that workers meet on. The loop owns it.
type network struct {
	*loop.Loop
	name string // of the interface; empty = none was named
	bind string // the node's IP address

	asked   time.Time
	looked  bool
	addr    string
	problem string // why workers cannot meet on it; empty if they can
	// bound is the interface with the address of --bind, where none was named for
	// training; empty = not known, or the address is for this machine alone.
	bound string
}

// networked reports whether workers may have to meet those of other machines.
func (nw *network) networked() bool {
	ip := net.ParseIP(nw.bind)
	return nw.name != "" || ip != nil && !ip.IsLoopback()
}

// CheckInterface refuses what cannot be the name of one network interface; none
// is none. NCCL's own lists and patterns are refused too: other nodes need one
// address to go to.
func CheckInterface(name string) error {
	if name == "" {
		return nil
	}
	if len(name) > longestInterface || name == "." || name == ".." || strings.ContainsAny(name, "/:,^= \t\n\x00") {
		return fmt.Errorf("%q: use the name of one network interface of this node, as ip link shows it", name)
	}
	return nil
}

// look looks now and then at the interface on which workers meet.
func (nw *network) look() {
	at := loop.Lane{What: interfaceLane}
	if !nw.networked() || nw.Busy(at) || time.Since(nw.asked) < interfaceEvery {
		return
	}
	nw.asked = time.Now()
	name, bind := nw.name, net.ParseIP(nw.bind)
	// Beside: the kernel answers when it has finished what it is doing to an
	// interface, which for a network card that is being reset is seconds.
	nw.Beside(at, func(context.Context) func() {
		if name == "" {
			bound := interfaceWith(bind)
			return func() { nw.looked, nw.bound = true, bound }
		}
		addr, err := interfaceAddress(name, bind.IsLoopback())
		return func() { nw.found(addr, err) }
	})
}

func (nw *network) found(addr string, err error) {
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("training interface %s: %v", nw.name, err)
	}
	if problem != "" && problem != nw.problem {
		nw.Log.Error().Str("problem", problem).Msg("nothing new starts here")
	}
	if addr != "" && addr != nw.addr {
		nw.Log.Info().Str("interface", nw.name).Str("addr", addr).Msg("workers meet here")
	}
	nw.looked, nw.addr, nw.problem = true, addr, problem
}

// interfaceWith is the name of the interface that has an address; empty if none
// has, or the kernel does not say.
func interfaceWith(ip net.IP) string {
	links, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, link := range links {
		addrs, err := link.Addrs()
		if err != nil {
			continue // it has gone meanwhile
		}
		for _, a := range addrs {
			if own, ok := a.(*net.IPNet); ok && own.IP.Equal(ip) {
				return link.Name
			}
		}
	}
	return ""
}

// interfaceAddress is where workers on an interface are reached. local: other
// nodes are on this machine, so that a loopback address will do.
func interfaceAddress(name string, local bool) (string, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return "", fmt.Errorf("there is none of that name: use one of ip link, or wait for its driver: %w", err)
	}
	switch {
	case link.Flags&net.FlagUp == 0:
		return "", errors.New("it is down: ip link set " + name + " up")
	case link.Flags&net.FlagRunning == 0:
		return "", errors.New("it has no carrier: look at its cable and its switch")
	}
	list, err := link.Addrs()
	if err != nil {
		return "", fmt.Errorf("ask for its addresses: %w", err)
	}
	var addrs []netip.Addr
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap())
		}
	}
	return reachable(addrs, local)
}

// reachable chooses the address that other nodes are told: IPv4 before IPv6, as
// not every library of workers speaks that, and of either the first that the
// kernel lists, which is the primary one.
func reachable(addrs []netip.Addr, local bool) (string, error) {
	kinds := []func(netip.Addr) bool{
		func(a netip.Addr) bool { return a.Is4() && a.IsGlobalUnicast() },
		func(a netip.Addr) bool { return a.Is6() && a.IsGlobalUnicast() },
		func(a netip.Addr) bool { return a.Is4() && a.IsLinkLocalUnicast() },
		func(a netip.Addr) bool { return local && a.IsLoopback() },
	}
	for _, fits := range kinds {
		for _, a := range addrs {
			if fits(a) {
				return a.String(), nil
			}
		}
	}
	if len(addrs) == 0 {
		return "", errors.New("it has no address: give it one that other nodes reach")
	}
	return "", fmt.Errorf("it has no address that other nodes reach: %s is good for this node or link only; give it another", addrs[0])
}
