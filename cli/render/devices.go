package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/internal/units"
)

// staleReading is how old a reading is of which people are told: agents look every
// 10 s, and a driver may take as long to answer.
const staleReading = 30 * time.Second

// load is what devices do together; those that say nothing are left out.
type load struct {
	busy, busyOf int
	used, memory uint64
}

func (l *load) add(r *api.DeviceReading, memory uint64) {
	if r == nil {
		return
	}
	if r.BusyPercent != nil {
		l.busy += *r.BusyPercent
		l.busyOf++
	}
	l.used += r.MemoryUsedBytes
	l.memory += memory
}

// share is how busy they are on the average.
func (l load) share() string {
	if l.busyOf == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", l.busy/l.busyOf)
}

// memoryText says how much of their memory is used, of how much where that is known.
func (l load) memoryText() string {
	switch {
	case l.used == 0 && l.memory == 0:
		return "-"
	case l.memory == 0:
		return gibibytes(l.used) + " GiB"
	}
	return gibibytes(l.used) + "/" + gibibytes(l.memory) + " GiB"
}

func gibibytes(bytes uint64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<30)) }

// loadOf is that of a node's devices.
func loadOf(n api.NodeStatus) (l load) {
	for _, d := range n.Devices {
		l.add(d.Reading, d.MemoryBytes)
	}
	return l
}

// warnings is what a reading says that people should know.
func warnings(r *api.DeviceReading) []string {
	if r == nil {
		return nil
	}
	var parts []string
	if r.Slowed != "" {
		parts = append(parts, "slowed down by "+r.Slowed)
	}
	if r.UncorrectedECC != nil && *r.UncorrectedECC > 0 {
		parts = append(parts, fmt.Sprintf("%d uncorrected memory errors", *r.UncorrectedECC))
	}
	if r.LastXid != nil {
		parts = append(parts, fmt.Sprintf("Xid %d %s ago", r.LastXid.Code, units.Span(time.Duration(r.LastXid.AgeS*float64(time.Second)))))
	}
	if r.Warning != "" {
		parts = append(parts, r.Warning)
	}
	return parts
}

// Devices is the table of single devices.
func Devices(w io.Writer, nodes []api.NodeStatus, s output.Style) error {
	t := output.Table{Head: []string{"NODE", "DEVICE", "PCI", "MODEL", "STATE", "JOB", "RANK", "BUSY", "MEMORY", "TEMP", "NOTE"}}
	const after = 3 // columns
	grouped := slices.ContainsFunc(nodes, func(n api.NodeStatus) bool {
		return slices.ContainsFunc(n.Devices, func(d api.DeviceStatus) bool { return groupOf(d) != "" })
	})
	if grouped {
		t.Head = slices.Insert(t.Head, after, "GROUP")
	}
	for _, n := range nodes {
		for _, d := range n.Devices {
			var l load
			l.add(d.Reading, d.MemoryBytes)
			rank, celsius, pci, note := "-", "-", "", warnings(d.Reading)
			if d.Place != nil {
				pci = d.Place.PCI
			}
			if d.Rank != nil {
				rank = fmt.Sprint(*d.Rank)
			}
			if r := d.Reading; r != nil && r.TemperatureC != nil {
				celsius = fmt.Sprintf("%d°C", *r.TemperatureC)
			}
			if d.Problem != "" {
				note = append([]string{d.Problem}, note...)
			}
			state := d.Health
			if !n.Alive {
				state = "lost"
			}
			row := []string{
				n.ID, d.ID, output.OrDash(pci), output.OrDash(d.Model), state, output.OrDash(d.Job), rank, l.share(), l.memoryText(), celsius, output.OrDash(strings.Join(note, "; ")),
			}
			if grouped {
				row = slices.Insert(row, after, output.OrDash(groupOf(d)))
			}
			t.Add(row...)
		}
	}
	if err := t.Write(w, s); err != nil {
		return err
	}
	return writeUnread(w, nodes, s, true)
}

// groupOf is where a device is within its node, as its location would go on: "numa1/g2"; empty = not known.
func groupOf(d api.DeviceStatus) string {
	parts := make([]string, 0, 2)
	if d.NUMA != "" {
		parts = append(parts, "numa"+d.NUMA)
	}
	if d.Group != "" {
		parts = append(parts, d.Group)
	}
	return strings.Join(parts, "/")
}

// writeUnread says below a table which nodes have no readings, and why; of
// simulated devices only where readings are what is asked for.
func writeUnread(w io.Writer, nodes []api.NodeStatus, s output.Style, simulated bool) error {
	by := map[string][]string{}
	var whys []string
	for _, n := range nodes {
		if n.NoReadings == "" || n.Simulated && !simulated || len(n.Devices) == 0 {
			continue
		}
		if by[n.NoReadings] == nil {
			whys = append(whys, n.NoReadings)
		}
		by[n.NoReadings] = append(by[n.NoReadings], n.ID)
	}
	slices.Sort(whys)
	var lines []string
	for _, why := range whys {
		lines = append(lines, fmt.Sprintf("no readings of %s: %s", strings.Join(by[why], ", "), output.OneLine(why)))
	}
	for _, n := range nodes {
		if n.ReadingsAgeS != nil && *n.ReadingsAgeS > staleReading.Seconds() {
			age := time.Duration(*n.ReadingsAgeS * float64(time.Second))
			lines = append(lines, fmt.Sprintf("readings of %s are %s old: its driver has not answered since", n.ID, units.Span(age)))
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, s.Paint(output.Faint, line)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
