package coordinator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Jobs that wait rest, and are roused when they come to the front of the queue,
// where they are told the policy's own words.
func TestFrontOfQueueIsRoused(t *testing.T) {
	l := newLab()
	if err := l.node(words{plain: []string{"n1"}, named: map[string]string{"gpus": "1"}}); err != nil {
		t.Fatal(err)
	}
	submit := func(name string) {
		l.now = l.now.Add(time.Millisecond)
		if err := l.submit(words{plain: []string{name}, named: map[string]string{"workers": "1..1"}}); err != nil {
			t.Fatal(err)
		}
		l.watch()
	}
	submit("a")
	for i := range 102 { // of which the first hundred are told closely
		submit(fmt.Sprintf("q%d", i+1))
	}
	l.advance(10 * time.Second)
	reason := func(name string) string {
		var s record.State
		kv, _ := l.mem.Get(record.StateKey(jobID(name)))
		if err := json.Unmarshal(kv.Value, &s); err != nil {
			t.Fatal(err)
		}
		return s.Reason.String()
	}
	for name, want := range map[string]string{"q100": "0 devices are left", "q101": "waits for 1 device", "q102": "waits for 1 device"} {
		if got := reason(name); got != want {
			t.Errorf("%s waits because %q, want %q", name, got, want)
		}
	}
	l.answers()
	l.commit(record.Put(record.WantedKey(jobID("q7")), record.Wanted{Run: false, At: l.now}))
	l.watch()
	told := slices.DeleteFunc(l.answers(), func(line string) bool { return !strings.HasPrefix(line, "txn wait") })
	if want := []string{`txn wait q101-aaaaaa: queued g0 "0 devices are left"`}; !slices.Equal(told, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}
