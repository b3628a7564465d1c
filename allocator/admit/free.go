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

// takeWhole makes the devices of a profile used, if they are all free; false, and nothing changed, if they are not.
func (f *free) takeWhole(p Profile) bool {
	for i := range len(p) - 1 {
		if !f.takeAll(p[i].From, p[i+1].From, p[i].Devices) {
			f.give(p[:i+1])
			return false
		}
	}
	return true
}

// takeAll makes so many devices used in the slots from one to before another, if all of these have them.
func (f *free) takeAll(from, to, devices int) bool {
	if devices == 0 || from >= to {
		return true
	}
	i := f.cut(from)
	k := f.cut(to)
	n := i
	for ; n < k && (*f)[n].devices >= devices; n++ {
		(*f)[n].devices -= devices
	}
	whole := n == k
	if !whole {
		for n--; n >= i; n-- {
			(*f)[n].devices += devices
		}
	}
	f.join(k)
	f.join(i)
	return whole
}
