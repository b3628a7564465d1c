package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/coordinator"
	"github.com/bellows-ml/bellows/record"
)

// BenchmarkStep measures a Step in a cluster of 40 nodes with 8 devices each, on
// which 160 of 300 jobs run and the others wait.
func BenchmarkStep(b *testing.B) {
	l := newLab()
	l.holding = true // at first: everything comes up at once
	for i := range 40 {
		if err := l.node(words{plain: []string{fmt.Sprintf("n%d", i+1)}, named: map[string]string{"gpus": "8"}}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 400 {
		name := fmt.Sprintf("j%d-aaaaaa", i)
		if err := l.submit(words{plain: []string{name}, named: map[string]string{"workers": "2..8"}}); err != nil {
			b.Fatal(err)
		}
	}
	l.holding = false
	l.reload()
	l.lines = nil
	inventory, _ := l.mem.Get(record.InventoryKey("n1"))
	b.ResetTimer()
	for b.Loop() {
		l.commit(record.Op{Key: inventory.Key, Value: inventory.Value}) // what draws everything anew
		changes, err := l.mem.Changes(l.watched+1, record.Root)
		if err != nil {
			b.Fatal(err)
		}
		l.watched = l.mem.Revision()
		l.now = l.now.Add(time.Millisecond)
		l.c.Step(l.now, coordinator.Changed{Changes: changes})
	}
}
