package devices

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/nvml"
)

// Under the driver's pids are other processes where the agent has its own: none
// of them is named.
func TestProcessesAreNotNamedByPidsOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	s := nvml.Survey{Devices: []nvml.Reading{{Device: cluster.Device{ID: "d"}, Processes: []nvml.Process{{PID: os.Getpid()}}}}}
	for _, nameless := range []bool{false, true} {
		who, err := identify(s, nil, nameless)
		if g := who.guests[os.Getpid()]; err != nil || (g.Command == "") != nameless || (g.Start == 0) != nameless {
			t.Errorf("nameless %t: %+v, %v", nameless, g, err)
		}
	}
}

// Names are shown with the look that they were found out for, whatever order the
// driver lists processes in, and never beside another look's.
func TestNamesBelongToTheirLook(t *testing.T) {
	t.Parallel()
	ds := New(loop.New(t.Context(), zerolog.Nop()), Config{}, func() []Run { return nil })
	look := func(at time.Time, guests map[int]found, pids ...int) *readings {
		r := nvml.Reading{Device: cluster.Device{ID: "d", Health: cluster.Healthy}, MemoryUsedBytes: 1}
		for _, pid := range pids {
			r.Processes = append(r.Processes, nvml.Process{PID: pid})
		}
		return &readings{at: at, survey: nvml.Survey{Devices: []nvml.Reading{r}}, guests: guests}
	}
	shown := func() (names []string) {
		for _, d := range ds.shown.readings().Devices {
			for _, p := range d.Processes {
				names = append(names, fmt.Sprint(p.PID, p.Command))
			}
		}
		return names
	}
	first := time.Now()
	ds.shown.keep(look(first, map[int]found{7: {Guest: agent.Guest{Command: "vi"}}, 8: {Guest: agent.Guest{Command: "sh"}}}, 9, 8, 7))
	if got := shown(); !slices.Equal(got, []string{"9", "8sh", "7vi"}) {
		t.Errorf("shown are %q", got)
	}
	ds.shown.keep(look(first.Add(time.Second), nil, 7))
	ds.shown.keep(look(first, map[int]found{7: {Guest: agent.Guest{Command: "vi"}}}, 7)) // comes late
	if got := shown(); !slices.Equal(got, []string{"7"}) {
		t.Errorf("after a newer look are shown %q", got)
	}
}

// A directory service that was away is asked again.
func TestANameIsAskedForAgain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	u := users{1: {asked: now}, 2: {name: "ada", asked: now}}
	for _, c := range []struct {
		uid   uint32
		after time.Duration
		name  string
		ask   bool
	}{{0, 0, "uid 0", true}, {1, 0, "uid 1", false}, {1, askAgain, "uid 1", true}, {2, time.Hour, "ada", false}} {
		if name, ask := u.of(c.uid, now.Add(c.after)); name != c.name || ask != c.ask {
			t.Errorf("uid %d after %s: %q, %t", c.uid, c.after, name, ask)
		}
	}
}
