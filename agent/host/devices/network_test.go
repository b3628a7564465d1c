package devices

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
	"github.com/bellows-ml/bellows/record"
)

func TestWhereWorkersAreReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addrs string
		local bool
		want  string // an address, or what the refusal says
	}{
		{"10.1.0.7 10.1.0.8", false, "10.1.0.7"},
		{"fe80::1 fd00::7 10.1.0.7", false, "10.1.0.7"},
		{"fe80::1 fd00::7", false, "fd00::7"},
		{"169.254.3.4 fd00::7", false, "fd00::7"},
		{"169.254.3.4 fe80::1", false, "169.254.3.4"},
		{"fe80::1", false, "no address that other nodes reach: fe80::1"},
		{"127.0.0.1 ::1", false, "no address that other nodes reach: 127.0.0.1"},
		{"127.0.0.1 ::1", true, "127.0.0.1"},
		{"", true, "it has no address"},
	} {
		var addrs []netip.Addr
		for a := range strings.FieldsSeq(c.addrs) {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		got, err := reachable(addrs, c.local)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%q: got %q, want %q", c.addrs, got, c.want)
		}
	}
}

func TestOneInterfaceIsNamed(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"eth0,eth1", "^docker0", "=eth0", "a/b", "..", "longer-than-fifteen", "eth0:1", "e 0"} {
		if err := CheckInterface(bad); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
	for _, good := range []string{"", "ib0", "enp129s0f0np0", "bond0.100"} {
		if err := CheckInterface(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	if _, err := interfaceAddress("none-of-those", true); err == nil || !strings.Contains(err.Error(), "none of that name") {
		t.Errorf("an interface that is not there: %v", err)
	}
	if addr, err := interfaceAddress("lo", true); err != nil || addr != "127.0.0.1" {
		t.Errorf("lo: %q, %v", addr, err)
	}
}

func TestTheInterfaceWithAnAddress(t *testing.T) {
	t.Parallel()
	if got := interfaceWith(net.IPv4(127, 0, 0, 1)); got != "lo" {
		t.Errorf("127.0.0.1 is on %q", got)
	}
	if got := interfaceWith(net.IPv4(192, 0, 2, 1)); got != "" {
		t.Errorf("an address that no interface has is on %q", got)
	}
	for bind, want := range map[string]bool{"127.0.0.2": false, "::1": false, "": false, "192.0.2.1": true} {
		if got := (&network{bind: bind}).networked(); got != want {
			t.Errorf("bound to %q: networked %v", bind, got)
		}
	}
}

// The address goes with the devices, so that both change at once.
func TestAnInterfaceThatGoesTakesNewWorkAway(t *testing.T) {
	t.Parallel()
	ds := New(loop.New(t.Context(), zerolog.Nop()), Config{Interface: "ib0"}, func() []Run { return nil })
	ds.surveyed(nvml.Survey{Devices: []nvml.Reading{{Device: cluster.Device{ID: "GPU-1", Health: cluster.Healthy}}}}, nil)
	ds.network.found("10.1.0.7", nil)
	if got := ds.stock(record.Inventory{}, false).Inventory(); got.Addr != "10.1.0.7" || got.Problem != "" || got.Devices[0].Health != cluster.Healthy {
		t.Errorf("up: %+v", got)
	}
	ds.network.found("", errors.New("it is down"))
	if got := ds.stock(record.Inventory{}, false).Inventory(); got.Addr != "" || got.Problem != "training interface ib0: it is down" || got.Devices[0].Health != cluster.Unhealthy {
		t.Errorf("down: %+v", got)
	}
}
