package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// onDevice is one look at one device "d"; said is what must be said of it, "" = nothing.
type onDevice struct {
	after time.Duration // since the look before
	look  Look
	said  []string
}

func TestWhoShouldNotBeOnADevice(t *testing.T) {
	job := record.JobGen{Job: "train-abcdef", Generation: 2}
	other := record.JobGen{Job: "eval-bcdefg", Generation: 1}
	worker := Guest{PID: 10, Start: 5, Command: "python", User: "ada", Run: job, MemoryBytes: 4 << 30}
	outside := Guest{PID: 10, Start: 5, Command: "python", User: "ada", MemoryBytes: 4 << 30}
	stranger := Guest{PID: 77, Start: 9, Command: "jupyter", User: "bob"}
	gone := Guest{PID: 10, MemoryBytes: 4 << 30}
	for name, looks := range map[string][]onDevice{
		"its own workers": {
			{0, Look{Holder: job, Guests: []Guest{worker}, UsedBytes: 4 << 30}, nil},
			{time.Minute, Look{Holder: job, Guests: []Guest{worker}, UsedBytes: 60 << 30}, nil},
		},
		"a stranger counts at once, whether the device is held or not": {
			{0, Look{Guests: []Guest{stranger}}, []string{"in use by jupyter of bob:"}},
			{time.Second, Look{Holder: job, Guests: []Guest{stranger, worker}}, []string{"in use by jupyter of bob:"}},
			{time.Second, Look{Holder: job, Guests: []Guest{worker}}, nil},
		},
		"many are not all named": {
			{0, Look{Guests: []Guest{
				stranger,
				{PID: 78, Start: 9, Command: "vi", User: "bob"},
				{PID: 79, Start: 9, Command: "vi", User: "bob"},
				{PID: 80, Start: 9, Command: "ed", User: "bob"},
				{PID: 81, Start: 9, Command: "ld", User: "bob"},
			}}, []string{"by ed of bob, jupyter of bob, ld of bob, and others:"}},
		},
		"a worker on a device of another job": {
			{0, Look{Holder: other, Guests: []Guest{worker}}, []string{"python of job train-abcdef, which has other devices"}},
		},
		"a worker that has got out": {
			{0, Look{Holder: job, Guests: []Guest{worker}}, nil},
			{time.Second, Look{Guests: []Guest{outside}}, []string{"python of ada, left behind by job train-abcdef generation 2"}},
			{time.Hour, Look{Guests: []Guest{outside}}, []string{"left behind by job train-abcdef generation 2"}},
		},
		"what cannot be told stands as it was": {
			{0, Look{Holder: job, Guests: []Guest{worker, stranger}}, []string{"by jupyter of bob:"}},
			{time.Second, Look{Holder: job, Undecided: true, Guests: []Guest{outside}}, []string{"by jupyter of bob:"}},
			{time.Second, Look{Guests: []Guest{outside}}, []string{"of ada, left behind by job train-abcdef"}},
			{time.Second, Look{}, nil},
			{time.Second, Look{Undecided: true, Guests: []Guest{outside}}, nil},
		},
		"doubts last while nothing can be told": {
			{0, Look{UsedBytes: 3 << 30}, nil},
			{time.Second, Look{Undecided: true}, nil},
			{DoubtFor, Look{UsedBytes: 3 << 30}, []string{"no process is listed"}},
		},
		"another process of the same pid is not a worker": {
			{0, Look{Holder: job, Guests: []Guest{worker}}, nil},
			{time.Second, Look{Guests: []Guest{{PID: 10, Start: 6, Command: "vi", User: "bob"}}}, []string{"by vi of bob:"}},
		},
		"clearing up takes a moment": {
			{0, Look{Holder: job, Guests: []Guest{worker}, UsedBytes: 4 << 30}, nil},
			{time.Second, Look{Guests: []Guest{gone}, UsedBytes: 4 << 30}, nil},
			{time.Second, Look{UsedBytes: 4 << 30}, nil},
			{time.Second, Look{}, nil},
		},
		"the driver gives nothing back": {
			{0, Look{Holder: job, Guests: []Guest{worker}, UsedBytes: 4 << 30}, nil},
			{time.Second, Look{Guests: []Guest{gone}, UsedBytes: 4 << 30}, nil},
			{DoubtFor, Look{Guests: []Guest{gone}, UsedBytes: 4 << 30}, []string{"python of job train-abcdef generation 2, which has ended"}},
			{time.Second, Look{}, nil},
		},
		"hidden, and then gone: doubts begin anew": {
			{0, Look{Guests: []Guest{{PID: 99}}}, nil},
			{DoubtFor, Look{Guests: []Guest{{PID: 99}}}, []string{"a process that has ended or is hidden from this agent"}},
			{time.Second, Look{}, nil},
			{DoubtFor, Look{Guests: []Guest{{PID: 99}}}, nil},
		},
		"memory of no listed process": {
			{0, Look{UsedBytes: 3 << 30}, nil},
			{DoubtFor, Look{UsedBytes: 3 << 30}, []string{"its memory is in use, and no process is listed"}},
			{time.Second, Look{UsedBytes: IdleMemory}, nil},
		},
		"memory of a device that is held is its holder's": {
			{0, Look{Holder: job, UsedBytes: 3 << 30}, nil},
			{DoubtFor, Look{Holder: job, UsedBytes: 3 << 30}, nil},
		},
		"displays and MPS servers are let be": {
			{0, Look{UsedBytes: 3 << 30, Guests: []Guest{
				{PID: 1, Start: 1, Command: "Xorg", User: "root", Graphics: true, MemoryBytes: 1 << 30},
				{PID: 2, Start: 2, Command: "nvidia-cuda-mps", User: "root", MemoryBytes: 1 << 30},
			}}, nil},
			{DoubtFor, Look{UsedBytes: 3 << 30, Guests: []Guest{
				{PID: 1, Start: 1, Command: "Xorg", User: "root", Graphics: true, MemoryBytes: 1 << 30},
				{PID: 2, Start: 2, Command: "nvidia-cuda-mps", User: "root", MemoryBytes: 1 << 30},
			}}, nil},
		},
		"a client of MPS is a process like others": {
			{0, Look{Guests: []Guest{{PID: 2, Start: 2, Command: "nvidia-cuda-mps"}, stranger}}, []string{"by jupyter of bob"}},
		},
		"in a container, only memory tells": {
			{0, Look{Nameless: true, Guests: []Guest{stranger, gone}, UsedBytes: 3 << 30}, nil},
			{DoubtFor, Look{Nameless: true, Guests: []Guest{stranger, gone}, UsedBytes: 3 << 30}, []string{"its memory is in use"}},
			{DoubtFor, Look{Nameless: true, Holder: job, Guests: []Guest{stranger, gone}, UsedBytes: 3 << 30}, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now, o := time.Unix(1e9, 0), Occupancy{}
			for i, l := range looks {
				now = now.Add(l.after)
				l.look.Device = "d"
				o = Occupy(o, []Look{{Device: "idle"}, l.look}, now)
				got := o.Problems["d"]
				if (got == "") != (l.said == nil) || o.Problems["idle"] != "" {
					t.Errorf("look %d: %q", i, o.Problems)
				}
				for _, want := range l.said {
					if !strings.Contains(got, want) {
						t.Errorf("look %d: %q does not say %q", i, got, want)
					}
				}
			}
		})
	}
}

func TestWhatIsSaidOfAJobsDevices(t *testing.T) {
	stranger := Guest{PID: 77, Start: 9, Command: "jupyter", User: "bob"}
	o := Occupy(Occupancy{}, []Look{{Device: "a", Guests: []Guest{stranger}}, {Device: "b"}, {Device: "c", Guests: []Guest{stranger}}}, time.Unix(1e9, 0))
	got := o.Of([]cluster.DeviceID{"c", "b"})
	if !strings.HasPrefix(got, "device c: in use by jupyter") || strings.Contains(got, "device a") || strings.Contains(got, "device b") {
		t.Errorf("got %q", got)
	}
	if o.Of([]cluster.DeviceID{"b"}) != "" || o.Same(Occupancy{}) || !o.Same(o) || !strings.Contains(o.String(), "device a: in use") {
		t.Errorf("of others %q, all %q", o.Of([]cluster.DeviceID{"b"}), o)
	}
}

// What is published does not change while the same people do the same there,
// whatever their processes and their memory are from look to look.
func TestWhatIsSaidOfStrangersIsStable(t *testing.T) {
	process := func(pid int, start uint64, command string) Guest {
		return Guest{PID: pid, Start: start, Command: command, User: "bob", MemoryBytes: uint64(pid)}
	}
	for name, looks := range map[string][]Look{
		"processes come and go": {
			{Guests: []Guest{process(5, 1, "python"), process(6, 1, "sh")}},
			{Guests: []Guest{process(6, 1, "sh"), process(7, 2, "python"), process(8, 3, "python")}},
		},
		"a process calls itself something else": {
			{Guests: []Guest{process(5, 1, "ray::IDLE")}},
			{Guests: []Guest{process(5, 1, "ray::train")}},
			{Guests: []Guest{process(5, 1, "ray::save")}},
		},
		"hidden ones come and go": {
			{Guests: []Guest{{PID: 1}, {PID: 2}}}, {Guests: []Guest{{PID: 2}, {PID: 1}}}, {Guests: []Guest{{PID: 2}}},
		},
		"memory grows": {{UsedBytes: 3 << 30}, {UsedBytes: 4 << 30}, {UsedBytes: 5 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			now, said := time.Unix(1e9, 0), ""
			o := Occupy(Occupancy{}, onDeviceD(looks[0]), now) // where doubts begin
			for i, l := range looks {
				now = now.Add(2 * DoubtFor)
				o = Occupy(o, onDeviceD(l), now)
				if i == 0 {
					said = o.Problems["d"]
				}
				if got := o.Problems["d"]; got == "" || got != said {
					t.Errorf("look %d: %q, before %q", i, got, said)
				}
			}
		})
	}
}

func onDeviceD(l Look) []Look {
	l.Device = "d"
	return []Look{l}
}
