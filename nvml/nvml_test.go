package nvml

import (
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

func TestSimulatedDevicesAreTheNodesOwn(t *testing.T) {
	s := Simulated("n2", 2, "H100", 80<<30)
	got, err := s.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []cluster.Device{
		{ID: "SIM-n2-0", Model: "H100", MemoryBytes: 80 << 30, Health: cluster.Healthy},
		{ID: "SIM-n2-1", Model: "H100", MemoryBytes: 80 << 30, Health: cluster.Healthy},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	got[0].Health = cluster.Unhealthy // the caller's copy
	if again, _ := s.Devices(t.Context()); again[0] != want[0] {
		t.Errorf("an answer can be changed from outside: %+v", again[0])
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
