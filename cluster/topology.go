package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxLocationDepth bounds the names of a location.
const MaxLocationDepth = 4

// MaxPricePerHour bounds a Node's PricePerHour, so that costs of all jobs add up to a finite number.
const MaxPricePerHour = 1e6

// CheckPrice reports what is wrong with a node's price an hour.
func CheckPrice(price float64) error {
	if !(price >= 0 && price <= MaxPricePerHour) {
		return fmt.Errorf("%v: use 0 to %.0f", price, MaxPricePerHour)
	}
	return nil
}

// CheckLocation reports what is wrong with a node's location: the network's domains
// that the node is in, from the outermost in, as in "block1/rack7". Each is a name as
// CheckName has it; an empty location is one that is not known.
func CheckLocation(location string) error {
	if location == "" {
		return nil
	}
	parts := strings.Split(location, "/")
	if len(parts) > MaxLocationDepth {
		return fmt.Errorf("location %.60q has %d levels: use at most %d, from the outermost in, as in block1/rack7", location, len(parts), MaxLocationDepth)
	}
	for _, p := range parts {
		if err := checkWord("location: the part", p); err != nil {
			return err
		}
	}
	return nil
}

// Sound returns the node with what of its topology and price can be used, and in words what cannot
// and the remedy; empty if all can. What cannot be used is left out as a whole: a price, a location, or
// the groups and NUMA nodes of all devices, which count as alike then.
func (n Node) Sound() (sound Node, problem string) {
	var problems []string
	if err := CheckLocation(n.Location); err != nil {
		n.Location = ""
		problems = append(problems, fmt.Sprintf("%v; set --location of its agent; until then it counts as in none", err))
	}
	if err := CheckPrice(n.PricePerHour); err != nil {
		n.PricePerHour = 0
		problems = append(problems, fmt.Sprintf("price an hour %v; set --price-per-hour of its agent; until then it costs nothing more", err))
	}
	if why := unsoundGroups(n.Devices); why != "" {
		n.Devices = slices.Clone(n.Devices)
		for i := range n.Devices {
			n.Devices[i].Group, n.Devices[i].NUMA = "", ""
		}
		problems = append(problems, why+"; set --device-groups of its agent; until then its devices count as alike")
	}
	return n, strings.Join(problems, "; ")
}

// Disagreements says, of nodes whose outermost location another node has inside of one, as rack7 and
// block1/rack7, that they disagree, and the remedy. Of names that both are inside of something nothing
// is said: racks of different blocks may be numbered alike.
func Disagreements(nodes []Node) map[NodeID]string {
	inner := map[string]Node{} // the first node that has a name inside of another
	for _, n := range nodes {
		for _, name := range strings.Split(n.Location, "/")[1:] {
			if _, seen := inner[name]; !seen {
				inner[name] = n
			}
		}
	}
	found := map[NodeID]string{}
	for _, n := range nodes {
		outermost, _, _ := strings.Cut(n.Location, "/")
		if other, ok := inner[outermost]; ok && other.ID != n.ID {
			found[n.ID] = fmt.Sprintf("location %q: node %s has %s inside of another, %q; make the --location of both agents agree; until then they count as in different places",
				n.Location, other.ID, outermost, other.Location)
		}
	}
	return found
}

// unsoundGroups says why the groups and NUMA nodes of devices are no tree. Those that
// are unhealthy, of which a driver may tell nothing any more, do not count.
func unsoundGroups(devices []Device) string {
	grouped, placed := Device{}, Device{} // the first with a group, and with a NUMA node
	devices = slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return d.Health == Unhealthy })
	for _, d := range devices {
		if grouped.Group == "" && d.Group != "" {
			grouped = d
		}
		if placed.NUMA == "" && d.NUMA != "" {
			placed = d
		}
	}
	if grouped.Group == "" && placed.NUMA == "" {
		return ""
	}
	numa, of := map[string]string{}, map[DeviceID]Device{}
	for _, d := range devices {
		switch other, twice := of[d.ID]; {
		case twice && (other.Group != d.Group || other.NUMA != d.NUMA):
			return fmt.Sprintf("device %s is in two groups, %q and %q", d.ID, other.Group, d.Group)
		case grouped.Group != "" && d.Group == "":
			return fmt.Sprintf("device %s is in no group, and device %s in group %q", d.ID, grouped.ID, grouped.Group)
		case placed.NUMA != "" && d.NUMA == "":
			return fmt.Sprintf("the NUMA node of device %s is not known, and that of device %s is", d.ID, placed.ID)
		}
		for _, word := range [][2]string{{"group", d.Group}, {"NUMA node", d.NUMA}} {
			if err := checkWord(word[0], word[1]); word[1] != "" && err != nil {
				return fmt.Sprintf("device %s: %v", d.ID, err)
			}
		}
		if at, seen := numa[d.Group]; d.Group != "" && seen && at != d.NUMA {
			return fmt.Sprintf("group %q spans the NUMA nodes %s and %s", d.Group, at, d.NUMA)
		}
		numa[d.Group], of[d.ID] = d.NUMA, d
	}
	return ""
}

// DeviceGroups say by number which devices of a node are close to each other: those of a
// group, and groups of a NUMA node.
type DeviceGroups struct {
	of []deviceGroup // by number of the device
}

type deviceGroup struct {
	numa, group int
	given       bool
}

// maxGroupedDevices bounds the numbers of devices in groups.
const maxGroupedDevices = 1024

// ParseDeviceGroups reads groups of devices, separated by commas, those of different
// NUMA nodes by slashes: "0-1,2-3/4-7" or "0+2,1+3".
func ParseDeviceGroups(text string) (DeviceGroups, error) {
	const use = "use numbers of devices as nvidia-smi counts them, as in 0-1,2-3/4-5,6-7: commas between groups, slashes between NUMA nodes"
	var g DeviceGroups
	if text == "" {
		return g, nil
	}
	group := 0
	for numa, part := range strings.Split(text, "/") {
		for members := range strings.SplitSeq(part, ",") {
			for span := range strings.SplitSeq(members, "+") {
				from, to, ranged := strings.Cut(span, "-")
				if !ranged {
					to = from
				}
				first, err := strconv.ParseUint(from, 10, 16)
				last, err2 := strconv.ParseUint(to, 10, 16)
				if err != nil || err2 != nil || last < first || last >= maxGroupedDevices {
					return g, fmt.Errorf("%q: %q is no range of devices: %s", text, span, use)
				}
				for d := int(first); d <= int(last); d++ {
					if d >= len(g.of) {
						g.of = append(g.of, make([]deviceGroup, d+1-len(g.of))...)
					}
					if g.of[d].given {
						return g, fmt.Errorf("%q: device %d is in two groups: %s", text, d, use)
					}
					g.of[d] = deviceGroup{numa: numa, group: group, given: true}
				}
			}
			group++
		}
	}
	return g, nil
}

// Apply puts the devices, in the order of their numbers, into their groups, instead of
// those that a driver knows. Where they are others than those that the groups name they
// are in none, and it says why.
func (g DeviceGroups) Apply(devices []Device) (problem string) {
	if len(g.of) == 0 {
		return ""
	}
	for i := range devices {
		devices[i].Group, devices[i].NUMA = "", ""
	}
	if len(devices) < len(g.of) {
		return fmt.Sprintf("--device-groups names device %d, and there are %d", len(g.of)-1, len(devices))
	}
	for i := range devices {
		if i >= len(g.of) || !g.of[i].given {
			return fmt.Sprintf("--device-groups leaves out device %d of %d", i, len(devices))
		}
	}
	several := slices.ContainsFunc(g.of, func(d deviceGroup) bool { return d.numa > 0 })
	for i := range devices {
		devices[i].Group = "g" + strconv.Itoa(g.of[i].group)
		if several {
			devices[i].NUMA = strconv.Itoa(g.of[i].numa)
		}
	}
	return ""
}
