package admit

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// large is so many jobs with deadlines within so many slots of five minutes, as
// much work as the devices can do in about half of the time.
func large(r *rand.Rand, jobs, devices, slots int) Problem {
	p := Problem{Devices: devices, First: 300, Slot: 300}
	end := float64(slots) * p.Slot
	for i := range jobs {
		p.Jobs = append(p.Jobs, largeJob(r, i, 0.5*end*float64(devices)/float64(jobs), end))
	}
	return p
}

func largeJob(r *rand.Rand, i int, share, end float64) Job {
	j := Job{ID: cluster.JobID(fmt.Sprint(i)), Counts: []int{1, 2, 4, 8, 16, 32, 64}, Deadline: end * (0.05 + 0.95*r.Float64())}
	for _, n := range j.Counts {
		j.Speeds = append(j.Speeds, power(n, 0.8))
		j.Pauses = append(j.Pauses, 30)
	}
	j.Work = min(share*r.Float64(), 0.8*j.Deadline*j.Speeds[6])
	return j
}

func BenchmarkNew(b *testing.B) {
	for _, c := range []struct{ jobs, devices, slots int }{{1000, 1024, 2016}, {10000, 8192, 288}, {10000, 8192, 2016}, {10000, 8192, 8064}} {
		b.Run(fmt.Sprintf("jobs=%d/slots=%d", c.jobs, c.slots), func(b *testing.B) {
			p := large(rand.New(rand.NewPCG(1, 1)), c.jobs, c.devices, c.slots)
			kept := 0
			for b.Loop() {
				pl, err := New(p)
				if err != nil {
					b.Fatal(err)
				}
				kept = len(pl.jobs)
			}
			b.ReportMetric(float64(kept), "kept")
		})
	}
}

// Each admission is of another job, with a deadline anywhere in the horizon.
func BenchmarkAdmit(b *testing.B) {
	const jobs, devices, slots = 10000, 8192, 2016
	r := rand.New(rand.NewPCG(1, 1))
	pl, err := New(large(r, jobs, devices, slots))
	if err != nil {
		b.Fatal(err)
	}
	admitted, n := 0, 0
	before := processorTime(b)
	for b.Loop() {
		end := slots * pl.problem.Slot
		if _, ok := pl.Admit(largeJob(r, jobs+n, 0.5*end*devices/jobs, end)); ok {
			admitted++
		}
		n++
	}
	b.ReportMetric(float64(admitted)/float64(n), "admitted/op")
	b.ReportMetric((processorTime(b)-before).Seconds()*1000/float64(n), "cpu-ms/op")
}

// processorTime is that of this process, which other work on the machine does not lengthen as much as real time.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
