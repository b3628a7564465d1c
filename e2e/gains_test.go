package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

func (u *people) scale(id cluster.JobID, least, most int) {
	u.t.Helper()
	if out, errs, code := u.patiently("scale", string(id), "--min", fmt.Sprint(least), "--max", fmt.Sprint(most)); code != 0 {
		u.t.Fatalf("scale %s exited %d: %s%s", id, code, out, errs)
	}
}

// Of two jobs that share three devices, the one that is done sooner has two of them, as
// far as the policy knows: until it is measured that two workers are no faster than one.
// A cluster whose scripts report nothing cannot know, and stays with the wrong split.
func TestDevicesGoToTheJobThatGains(t *testing.T) {
	t.Parallel()
	const settled = 5 * time.Second // a few decisions
	for _, policy := range []string{"hu", "flowtime"} {
		for _, reports := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s reports %t", policy, reports), func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, config{nodes: 1, devices: 3, policy: policy, interval: time.Second})
				flat := f.paced(pacing{"flat", 50 * time.Millisecond, "{1: 1, 2: 1}", 144000, reports})
				steep := f.paced(pacing{"steep", 50 * time.Millisecond, "{1: 1, 2: 1.9}", 432000, reports})
				flat["max"], flat["eta"], steep["eta"] = 1, "2h", "6h"
				id, other := f.submit(flat), f.submit(steep)
				f.awaitRunning(id, 1, 0)
				time.Sleep(17 * time.Second) // reports come every ten, and the first eight do not count
				f.scale(id, 2, 2)
				f.awaitRunning(id, 2, 0)
				time.Sleep(16 * time.Second)
				f.scale(id, 1, 1) // a generation's end is recorded at once
				f.awaitRunning(id, 1, 2)
				f.scale(id, 1, 2)
				if reports {
					f.awaitRunning(other, 2, 1)
				} else {
					f.awaitRunning(id, 2, 3)
				}
				time.Sleep(settled)
				has, others := f.show(id), f.show(other)
				if wrong := has.Workers == 2 && others.Workers == 1; wrong == reports {
					t.Errorf("%d workers have the job that does not gain, %d the other: %s", has.Workers, others.Workers, f.decided())
				}
				if known := len(has.Speeds) > 0 && has.Prediction != nil && has.Prediction.EndLow != nil; known != reports {
					t.Errorf("prediction %+v, speeds %+v", has.Prediction, has.Speeds)
				}
			})
		}
	}
}

// decided is the last decision, for the messages of failed tests.
func (r *records) decided() string { return fmt.Sprintf("%+v", r.mirror().Decision.Value) }
