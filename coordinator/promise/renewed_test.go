package promise

import (
	"testing"

	"github.com/bellows-ml/bellows/allocator/admit"
	"github.com/bellows-ml/bellows/cluster"
)

// Filling all anew goes by deadlines, and may save another promise than the one that the
// plan keeps. Then the plan stays: what is promised and kept is not traded for what is broken.
func TestRenewingBreaksNoPromise(t *testing.T) {
	job := func(id string, work, deadline float64, until int) admit.Job {
		return admit.Job{
			ID: cluster.JobID(id), Work: work, Deadline: deadline, Counts: []int{1}, Speeds: []float64{1}, Present: 1,
			Promised: admit.Profile{{From: 0, Devices: 1}, {From: until}},
		}
	}
	// One device is left of two. What is left of a takes longer than was planned, and b goes as it was.
	p := admit.Problem{Devices: 1, First: 1, Slot: 1, Jobs: []admit.Job{job("a", 20, 30, 11), job("b", 30, 35, 31)}}
	fresh, err := admit.New(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := fresh.Kept("b"); ok {
		t.Fatal("filled anew, the plan keeps b: this shows nothing")
	}
	followed, renewed, err := renew(p)
	if err != nil {
		t.Fatal(err)
	}
	for name, plan := range map[string]*admit.Plan{"followed": followed, "renewed": renewed} {
		if _, ok := plan.Kept("b"); !ok {
			t.Errorf("%s: b's promise is broken", name)
		}
	}
	// With both devices there is room for all, and what was promised to no one is made use of.
	p.Devices = 2
	if _, renewed, err = renew(p); err != nil {
		t.Fatal(err)
	}
	for _, id := range []cluster.JobID{"a", "b"} {
		if _, ok := renewed.Kept(id); !ok {
			t.Errorf("two devices: %s's promise is broken", id)
		}
	}
}

// renew follows a plan of promises, and fills the same anew as a review does.
func renew(p admit.Problem) (followed, renewed *admit.Plan, err error) {
	followed, err = admit.Follow(p)
	return followed, keeping{followed}.renewed(p).Plan, err
}
