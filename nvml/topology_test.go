package nvml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// TestLocate reads links as "01:nv 23:PIX", all others are SYS without NVLink.
func TestLocate(t *testing.T) {
	for _, c := range []struct {
		name, links string
		numa        []int
		want        string // group and NUMA node of each device
	}{
		{"nothing is near", "", []int{-1, -1}, "/ /"},
		{"NUMA nodes alone", "", []int{0, 0, 1, 1}, "/0 /0 /1 /1"},
		{"one NUMA node is not known", "", []int{0, -1}, "/ /"},
		{"PCIe switches", "01:PIX 23:PXB", []int{0, 0, 0, 1}, "/0 /0 /0 /1"},
		{"PCIe switches in NUMA nodes", "01:PIX 23:PXB", []int{0, 0, 1, 1}, "pcie-0/0 pcie-0/0 pcie-2/1 pcie-2/1"},
		{"NVLink before PCIe", "03:nv 12:nv 01:PIX 23:PIX", []int{0, 0, 0, 0}, "nvlink-0/0 nvlink-1/0 nvlink-1/0 nvlink-0/0"},
		{"NVLink across NUMA nodes", "02:nv 13:nv 01:PIX 23:PIX", []int{0, 0, 1, 1}, "pcie-0/0 pcie-0/0 pcie-2/1 pcie-2/1"},
		{"a chain of NVLinks", "01:nv 12:nv 23:nv", []int{0, 0, 0, 0}, "/0 /0 /0 /0"},
		{"all by NVLink", "01:nv 02:nv 12:nv", []int{0, 0, 1}, "/ / /"},
		{"host bridges join nothing", "01:PHB 23:NODE", []int{-1, -1, -1, -1}, "/ / / /"},
	} {
		var devices []Reading
		for i, numa := range c.numa {
			devices = append(devices, Reading{Index: i, NUMA: numa, Device: cluster.Device{ID: cluster.DeviceID(fmt.Sprint(i))}})
		}
		var links []Link
		for a := range devices {
			for b := a + 1; b < len(devices); b++ {
				l := Link{A: devices[a].ID, B: devices[b].ID, Path: "SYS"}
				for f := range strings.FieldsSeq(c.links) {
					if pair, how, _ := strings.Cut(f, ":"); pair == fmt.Sprintf("%d%d", a, b) {
						l.NVLinks, l.Path = 0, how
						if how == "nv" {
							l.NVLinks, l.Path = 4, "SYS"
						}
					}
				}
				links = append(links, l)
			}
		}
		locate(devices, links)
		var got []string
		for _, d := range devices {
			got = append(got, d.Group+"/"+d.Device.NUMA)
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: got %s, want %s", c.name, g, c.want)
		}
	}
}
