package admit

import (
	"fmt"
	"math"
)

// slack is the share of a job's work, or of what one device does in a slot, that
// adding up the same numbers in another order can cost.
const slack = 1e-9

// Check reports whether profiles, one beside each job of a problem, are such that
// each job which has one ends by its deadline, and all fit on the devices. It goes
// through them slot by slot and calls nothing else of this package: it is the
// check on all of it. A job without a profile counts only with what it keeps in
// the first slot.
func Check(p *Problem, profiles []Profile) error {
	if len(profiles) != len(p.Jobs) {
		return fmt.Errorf("%d profiles for %d jobs", len(profiles), len(p.Jobs))
	}
	last := 1
	for _, f := range profiles {
		if len(f) > 0 {
			last = max(last, f[len(f)-1].From)
		}
	}
	used := make([]int, last+1)
	for i := range p.Jobs {
		if err := checkJob(p, &p.Jobs[i], profiles[i], used); err != nil {
			return fmt.Errorf("job %q: %w", p.Jobs[i].ID, err)
		}
	}
	for t, n := range used {
		if n > p.Devices {
			return fmt.Errorf("slot %d: %d devices of %d", t, n, p.Devices)
		}
	}
	return nil
}

// checkJob adds the devices of one job to those used.
func checkJob(p *Problem, j *Job, profile Profile, used []int) error {
	if len(profile) == 0 {
		if j.Kept {
			used[0] += j.Present
		}
		return nil
	}
	end := profile[len(profile)-1]
	if profile[0].From != 0 || end.Devices != 0 {
		return fmt.Errorf("profile %v: it begins with slot 0 and ends with no devices", profile)
	}
	left, now, before, lost, run := j.Work, 0.0, j.Present, j.Owed, 0
	for t := range end.From {
		for run+1 < len(profile) && profile[run+1].From <= t {
			run++
		}
		n, length := profile[run].Devices, p.Slot
		if t == 0 {
			length = p.First
		}
		if t == 0 && j.Kept && n != j.Present {
			return fmt.Errorf("profile %v: it keeps %d devices in the running slot", profile, j.Present)
		}
		speed := 0.0
		for k, count := range j.Counts {
			if count != n {
				continue
			}
			speed = j.Speeds[k]
			if n != before {
				lost = 0
				if j.Pauses != nil {
					lost = j.Pauses[k]
				}
			}
		}
		if n != 0 && speed == 0 {
			return fmt.Errorf("slot %d: %d devices are not among %v", t, n, j.Counts)
		}
		if n == 0 {
			lost = 0
		}
		time := math.Max(0, math.Min(now+length, j.Deadline)-now)
		left -= speed * math.Max(0, time-lost)
		lost = math.Max(0, lost-time)
		used[t] += n
		now, before = now+length, n
	}
	if left > slack*math.Max(j.Work, p.Slot) {
		return fmt.Errorf("%v of its work %v is left at its deadline %v", left, j.Work, j.Deadline)
	}
	return nil
}
