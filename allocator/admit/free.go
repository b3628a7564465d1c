package admit

import "slices"

// free is how many devices are free, from slot 0 on; the last step goes on for ever.
type free []step

type step struct{ at, devices int }

// find is the index of the step that a slot lies in.
func (f free) find(slot int) int {
	lo, hi := 0, len(f)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; f[mid].at <= slot {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// cut makes a step begin with this slot, and returns its index.
func (f *free) cut(slot int) int {
	i := f.find(slot)
	if (*f)[i].at == slot {
		return i
	}
	*f = slices.Insert(*f, i+1, step{slot, (*f)[i].devices})
	return i + 1
}

// add makes so many more devices free in the slots from one to before another.
func (f *free) add(from, to, devices int) {
	if devices == 0 || from >= to {
		return
	}
	i := f.cut(from)
	k := f.cut(to)
	for n := i; n < k; n++ {
		(*f)[n].devices += devices
	}
	f.join(k)
	f.join(i)
}

// join makes one of two steps that have become equal: few steps are what makes filling fast.
func (f *free) join(i int) {
	if i > 0 && (*f)[i].devices == (*f)[i-1].devices {
		*f = slices.Delete(*f, i, i+1)
	}
}

// take makes the devices of a profile used; give makes them free again.
func (f *free) take(p Profile) { f.change(p, -1) }
func (f *free) give(p Profile) { f.change(p, 1) }

func (f *free) change(p Profile, sign int) {
	for i := range len(p) - 1 {
		f.add(p[i].From, p[i+1].From, sign*p[i].Devices)
	}
}

// holds reports whether a profile fits.
func (f free) holds(p Profile) bool {
	if len(p) == 0 {
		return true
	}
	i := f.find(p[0].From)
	for k := range len(p) - 1 {
		to, need := p[k+1].From, p[k].Devices
		for ; ; i++ {
			if f[i].devices < need {
				return false
			}
			if i+1 == len(f) || f[i+1].at >= to {
				break
			}
		}
		if i+1 < len(f) && f[i+1].at == to {
			i++
		}
	}
	return true
}
