package cluster

// Profile is how many devices a job has, slot of time by slot of time. The last run
// has none and says where the job ends.
type Profile []Run

// Run is a number of devices from one slot on, until that of the next run.
type Run struct {
	From    int `json:"from"`
	Devices int `json:"devices"`
}

// At returns the number of devices in a slot.
func (p Profile) At(slot int) int {
	n := 0
	for _, r := range p {
		if r.From > slot {
			break
		}
		n = r.Devices
	}
	return n
}

// After returns the profile as it is so many slots later: nil if it has ended by then.
func (p Profile) After(slots int) Profile {
	var out Profile
	for _, r := range p {
		r.From = max(0, r.From-slots)
		if len(out) > 0 && out[len(out)-1].From == r.From {
			out = out[:len(out)-1]
		}
		out = append(out, r)
	}
	if len(out) == 1 {
		return nil
	}
	return out
}
