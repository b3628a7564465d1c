package serve

import (
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// reads lets an agent say how busy its two devices are.
func (a *agent) reads(node string, percent int) {
	a.server.cfg.Readings = func() api.NodeReadings {
		r := api.NodeReadings{AgeS: 3, Driver: "550.54.15"}
		for i := range 2 {
			busy := percent + i
			id := fmt.Sprintf("D-%s-%d", node, i)
			r.Devices = append(r.Devices, api.DeviceReading{ID: id, BusyPercent: &busy})
			r.Places = append(r.Places, api.DevicePlace{ID: id, Index: i, PCI: fmt.Sprintf("0000:%02x:00.0", 7+i)})
		}
		r.Links = []api.DeviceLink{{A: "D-" + node + "-0", B: "D-" + node + "-1", NVLinks: 12, Path: "SYS"}}
		return r
	}
}

// busy is how busy nodes says that devices are; -1 = it does not say.
func busy(t *testing.T, a *agent) map[string]int {
	t.Helper()
	nodes, err := a.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, n := range nodes {
		for _, d := range n.Devices {
			got[d.ID] = -1
			if d.Reading != nil {
				got[d.ID] = *d.Reading.BusyPercent
			}
		}
	}
	return got
}

func inventory(node cluster.NodeID) record.Op {
	var inv record.Inventory
	for i := range 2 {
		inv.Devices = append(inv.Devices, cluster.Device{ID: cluster.DeviceID(fmt.Sprintf("D-%s-%d", node, i)), Health: cluster.Healthy})
	}
	return record.Put(record.InventoryKey(node), inv)
}

// Readings come from the agent that has the devices, over TLS from another host,
// and those of a job are of its own devices only.
func TestReadingsComeFromTheNodesOfTheDevices(t *testing.T) {
	store, n1, n2 := cluster2(t)
	ca := authority(t)
	n1.server.cfg.Identity = certified(t, ca, "n1")
	n2.serveNodes(t, certified(t, ca, "n2"))
	n1.reads("n1", 10)
	n2.reads("n2", 20)
	store.put(t, inventory("n1"), inventory("n2"))
	want := map[string]int{"D-n1-0": 10, "D-n1-1": 11, "D-n2-0": 20, "D-n2-1": 21}
	var got map[string]int
	eventually(t, "n1 knows what n2's devices do", func() bool { got = busy(t, n1); return reflect.DeepEqual(got, want) })

	nodes, err := n1.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := nodes[1]; n.Devices[1].Place == nil || n.Devices[1].Place.PCI != "0000:08:00.0" || len(n.Links) != 1 || n.Links[0].NVLinks != 12 {
		t.Errorf("where n2's devices are, and how they reach each other: %+v", n)
	}

	job, err := n1.Job(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range job.Members {
		if len(m.Readings) != len(m.Devices) || m.Readings[0].ID != m.Devices[0] || m.ReadingsAgeS == nil || *m.ReadingsAgeS != 3 {
			t.Errorf("member %d has %v, its devices read %+v", i, m.Devices, m.Readings)
		}
	}
	jobs, err := n1.Jobs(t.Context(), false)
	if err != nil || len(jobs) != 1 || jobs[0].Members[0].Readings != nil {
		t.Errorf("a list of jobs asks for readings too: %+v, %v", jobs, err)
	}
}

// A node that does not answer does not hide the others, and is reported.
func TestNodesThatDoNotAnswerHaveNoReadings(t *testing.T) {
	store, n1, _ := cluster2(t)
	n1.reads("n1", 10)
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and no process accepts them
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = frozen.Close() })
	n1.server.cfg.Identity = certified(t, authority(t), "n1")
	store.put(t, inventory("n1"), inventory("n2"), inventory("n3"),
		record.Put(record.AliveKey("n2"), record.Alive{API: "tls:" + frozen.Addr().String()}),
		record.Put(record.AliveKey("n3"), record.Alive{API: "carrier pigeon"}))
	var nodes []api.NodeStatus
	eventually(t, "all three nodes", func() bool {
		var err error
		nodes, err = n1.Nodes(t.Context())
		return err == nil && len(nodes) == 3 && len(nodes[2].Devices) == 2
	})
	for i, want := range []string{"", "no answer within 2s", "only unix:/path and tls:host:port"} {
		n := nodes[i]
		if (n.NoReadings == "") != (want == "") || !strings.Contains(n.NoReadings, want) {
			t.Errorf("%s: no readings because %q, want %q", n.ID, n.NoReadings, want)
		}
		if read := n.Devices[0].Reading != nil; read != (want == "") {
			t.Errorf("%s: devices %+v", n.ID, n.Devices)
		}
	}
}

func TestAClockThatIsOffIsTold(t *testing.T) {
	sent := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	got := sent.Add(4 * time.Second)
	for _, c := range []struct {
		says time.Time
		want string
	}{
		{sent, "agree"},
		{got, "agree"},
		{sent.Add(time.Second), "agree"},
		{time.Time{}, "agree"},
		{sent.Add(2*time.Hour + 2*time.Second), "7200"},
		{sent.Add(2*time.Second - 2*time.Hour), "-7200"},
	} {
		said := "agree"
		if a := ahead(sent, c.says, got); a != nil {
			said = fmt.Sprint(*a)
		}
		if said != c.want {
			t.Errorf("a clock that says %s between %s and %s: %s, want %s", c.says, sent, got, said, c.want)
		}
	}
}
