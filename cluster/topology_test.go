package cluster

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestCheckLocation(t *testing.T) {
	for location, want := range map[string]string{
		"": "", "rack7": "", "block1/rack7": "", "a/b/c/d": "",
		"a/b/c/d/e": "use at most 4", "rack 7": `the part "rack 7"`, "/rack7": "is empty", "rack7/": "is empty", "rack\n": "letters",
	} {
		if err := CheckLocation(location); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", location, err, want)
		}
	}
}

// devicesIn reads "g0/0 g1/1": the groups and NUMA nodes of healthy devices; "!" = unhealthy.
func devicesIn(text string) []Device {
	var all []Device
	for i, f := range strings.Fields(text) {
		word, sick := strings.CutSuffix(f, "!")
		group, numa, _ := strings.Cut(word, "/")
		d := Device{ID: DeviceID(fmt.Sprint("d", i)), Group: group, NUMA: numa, Health: Healthy}
		if sick {
			d.Health = Unhealthy
		}
		all = append(all, d)
	}
	return all
}

// A price that makes no sum of costs is named, and does not count.
func TestSoundPrice(t *testing.T) {
	for price, sound := range map[float64]bool{0: true, 14.5: true, MaxPricePerHour: true, -1: false, 2 * MaxPricePerHour: false, math.Inf(1): false, math.NaN(): false} {
		n, problem := Node{PricePerHour: price}.Sound()
		if sound != (problem == "") || sound && n.PricePerHour != price || !sound && (n.PricePerHour != 0 || !strings.Contains(problem, "--price-per-hour")) {
			t.Errorf("%v: %v, %q", price, n.PricePerHour, problem)
		}
	}
}

// A topology that is no tree is named with the remedy, and not used.
func TestSound(t *testing.T) {
	for devices, want := range map[string]string{
		"/ /": "", "g0/0 g0/0 g1/1": "", "/0 /1": "", "g0/ g1/": "",
		"g0/0 g0/1":  `group "g0" spans the NUMA nodes 0 and 1`,
		"g0/ /":      `device d1 is in no group, and device d0 in group "g0"`,
		"/ g0/":      `device d0 is in no group, and device d1 in group "g0"`,
		"/0 /":       `the NUMA node of device d1 is not known`,
		"g0/0 g/0/1": `device d1: NUMA node "0/1"`,
		"g0/ g0/ /!": "",
	} {
		n, problem := Node{ID: "n1", Devices: devicesIn(devices), Location: "rack7"}.Sound()
		if !strings.HasPrefix(problem, want) || (problem == "") != (want == "") {
			t.Errorf("%s: %q, want %q", devices, problem, want)
		}
		if want != "" && !strings.Contains(problem, "set --device-groups of its agent") {
			t.Errorf("%s: no remedy: %s", devices, problem)
		}
		for _, d := range n.Devices {
			if want != "" && (d.Group != "" || d.NUMA != "") {
				t.Errorf("%s: %+v is used", devices, d)
			}
		}
		if n.Location != "rack7" {
			t.Errorf("%s: the location %q is lost with it", devices, n.Location)
		}
	}
	twice := devicesIn("g0/0 g1/0")
	twice[1].ID = twice[0].ID
	if _, problem := (Node{Devices: twice}).Sound(); !strings.Contains(problem, `device d0 is in two groups, "g0" and "g1"`) {
		t.Errorf("%q", problem)
	}
	n, problem := Node{Devices: devicesIn("g0/0"), Location: "rack 7"}.Sound()
	if n.Location != "" || n.Devices[0].Group != "g0" || !strings.Contains(problem, "set --location of its agent") {
		t.Errorf("%+v, %q", n, problem)
	}
}

// Nodes that tell of one name at different depths are named, with each other.
func TestDisagreements(t *testing.T) {
	for _, c := range []struct{ locations, disagree string }{
		{"rack1 rack2 - rack1", ""},
		{"block1/rack1 block1/rack2 block2/rack1", ""},
		{"block1 block1/rack1", ""},
		{"rack1 block1/rack1 rack2", "n0:n1"},
		{"rack1/low block1/rack1 block2/rack1", "n0:n1"},
		{"hall/block1/rack1 rack1 block1/rack1", "n1:n0 n2:n0"},
		{"rack1/rack1 -", ""},
	} {
		var nodes []Node
		for i, l := range strings.Fields(c.locations) {
			nodes = append(nodes, Node{ID: NodeID(fmt.Sprint("n", i)), Location: strings.Trim(l, "-")})
		}
		var got []string
		found := Disagreements(nodes)
		for _, n := range nodes {
			if text, ok := found[n.ID]; ok {
				_, rest, _ := strings.Cut(text, ": node ")
				got = append(got, string(n.ID)+":"+rest[:2])
				if !strings.Contains(text, "make the --location of both agents agree") {
					t.Errorf("%s: no remedy: %s", c.locations, text)
				}
			}
		}
		if strings.Join(got, " ") != c.disagree {
			t.Errorf("%s: got %v, want %s: %v", c.locations, got, c.disagree, found)
		}
	}
}

func TestDeviceGroups(t *testing.T) {
	for text, want := range map[string]string{
		"0-1,2-3":         "g0/ g0/ g1/ g1/",
		"0-1/2-3":         "g0/0 g0/0 g1/1 g1/1",
		"0+2,1+3":         "g0/ g1/ g0/ g1/",
		"0,1/2,3":         "g0/0 g1/0 g2/1 g3/1",
		"":                "/ / / /",
		"0-1,1-3":         "device 1 is in two groups",
		"0-1,2-":          `"2-" is no range`,
		"0 1":             "is no range",
		"3-2":             `"3-2" is no range`,
		"0-1,,2-3":        `"" is no range`,
		"0-99999999999":   "is no range",
		"0-1,2-4":         "names device 4, and there are 4",
		"0-1,3":           "leaves out device 2 of 4",
		"0-2":             "leaves out device 3 of 4",
		"-1":              "is no range",
		"0-1;2-3":         "is no range",
		"0-1/2-3/4-70000": "is no range",
	} {
		devices := devicesIn("/ / / /")
		g, err := ParseDeviceGroups(text)
		var got string
		if err != nil {
			got = err.Error()
		} else if got = g.Apply(devices); got == "" {
			var parts []string
			for _, d := range devices {
				parts = append(parts, d.Group+"/"+d.NUMA)
			}
			got = strings.Join(parts, " ")
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
