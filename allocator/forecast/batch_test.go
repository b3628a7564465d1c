package forecast_test

import (
	"slices"
	"testing"

	"github.com/bellows-ml/bellows/allocator/forecast"
	"github.com/bellows-ml/bellows/allocator/goodput"
)

// ranging is a job that was measured at all sizes, with the smallest batch and a large one.
func ranging(noise float64) forecast.Job {
	j := forecast.Job{Sizes: sizes, Batch: 64, Steps: 36_000, Range: forecast.Range{Most: 1024, Micro: 128, Noise: noise}}
	for _, k := range sizes {
		for _, b := range []int{64, 256, 1024} {
			share, parts := float64(b)/float64(k), max(1, b/k/128)
			p := point(k, 1/(0.01*float64(parts)+0.001*share+0.1*(1-1/float64(k))))
			p.Batch = b
			j.Points = append(j.Points, p)
		}
	}
	return j
}

// The more noise, the larger the batch; the more workers too, as they communicate. It stays
// within what the owner allows, shared evenly and in whole micro-batches.
func TestBestBatches(t *testing.T) {
	before := make([]int, len(sizes))
	for _, noise := range []float64{1, 100, 1000, 100_000} {
		f := forecast.Of(ranging(noise))
		if len(f.Batches) != len(sizes) {
			t.Fatalf("noise %v: %v", noise, f.Batches)
		}
		for i, b := range f.Batches {
			share := b / sizes[i]
			if b < 64 || b > 1024 || b%sizes[i] != 0 || share > 128 && share%128 != 0 {
				t.Errorf("noise %v, %d workers: batch %d", noise, sizes[i], b)
			}
			if b < before[i] || i > 0 && b < f.Batches[i-1]*9/10 { // they are rounded to what can be shared
				t.Errorf("noise %v: %v, with less noise %v", noise, f.Batches, before)
			}
		}
		before = f.Batches
	}
	if before[len(before)-1] < 512 {
		t.Errorf("with much noise %v", before)
	}
	if f := forecast.Of(ranging(1)); f.Batches[3] > 128 {
		t.Errorf("with hardly any noise %v", f.Batches)
	}
}

// Without a report of its noise, or where one batch is allowed, the batch stays the smallest.
func TestBatchesOfUnknownNoise(t *testing.T) {
	one := ranging(1000)
	one.Range.Most = 64
	silent := ranging(0)
	plain := ranging(0)
	plain.Range = forecast.Range{Micro: 128}
	want := forecast.Of(plain)
	for _, j := range []forecast.Job{one, silent} {
		if f := forecast.Of(j); f.Batches != nil || f.Staying != 0 || !slices.Equal(f.Speeds, want.Speeds) {
			t.Errorf("%+v", f)
		}
	}
	if f := forecast.Of(ranging(1000)); f.Batches == nil || f.Speeds[3] <= want.Speeds[3] {
		t.Errorf("known: %v, unknown: %v", f.Speeds, want.Speeds)
	}
}

// A world of another batch than the best is told to be slower; one of the best is not.
func TestStaying(t *testing.T) {
	j := ranging(5000)
	best := forecast.Of(j)
	j.In = forecast.World{Workers: 8, Nodes: 1, Batch: 64}
	if f := forecast.Of(j); !(f.Staying > 0 && f.Staying < best.Speeds[3]) {
		t.Errorf("staying %v of %v", f.Staying, best.Speeds)
	}
	at, known := best.Speed(j)
	if s := best.Relative(at); !known || s >= best.Speeds[3] {
		t.Errorf("%v, %v", s, known)
	}
	j.In.Batch = best.Batches[3]
	if f := forecast.Of(j); f.Staying != 0 {
		t.Errorf("staying %v", f.Staying)
	}
}

// Extreme ranges end, and stay within themselves.
func TestBatchesOfExtremeRanges(t *testing.T) {
	for _, r := range []struct{ least, most, micro int }{{1, 1 << 62, 1}, {1, 1 << 62, 0}, {3, 4, 7}, {64, 65, 0}, {1 << 61, 1 << 62, 1 << 60}} {
		f := forecast.Of(forecast.Job{
			Sizes: []int{1, 3, 8}, Batch: r.least, Range: forecast.Range{Most: r.most, Micro: r.micro, Noise: 1e9},
			Points: []goodput.Point{point(1, 10), point(8, 60)},
		})
		for i, b := range f.Batches {
			if b < r.least || b > r.most {
				t.Errorf("%+v, size %d: batch %d", r, i, b)
			}
		}
	}
}

// What it does most samples with is known without any noise: as large a batch as the owner allows,
// where workers have to talk, each size against the best of one device.
func TestFastest(t *testing.T) {
	j := ranging(0)
	f := forecast.Of(j).Fastest
	if f == nil || len(f.Speeds) != len(sizes) || f.Staying != 0 {
		t.Fatalf("%+v", f)
	}
	if f.Speeds[0] != 1 {
		t.Errorf("one device does %v times what one does", f.Speeds[0])
	}
	for i, k := range sizes {
		b := f.Batches[i]
		if b < 64 || b > 1024 || b%k != 0 || k > 1 && b < 512 {
			t.Errorf("%d workers: batch %d", k, b)
		}
		want := func(b int) float64 { // samples in a second, by the truth of ranging
			share, parts := float64(b)/float64(k), float64(max(1, b/k/128))
			return float64(b) / (0.01*parts + 0.001*share + 0.1*(1-1/float64(k)))
		}
		if truth := want(b) / (128 / (0.01 + 0.128)); f.Speeds[i] < 0.93*truth || f.Speeds[i] > 1.07*truth {
			t.Errorf("%d workers: %v times one device, in truth %v", k, f.Speeds[i], truth)
		}
	}
	j.In = forecast.World{Workers: 4, Nodes: 1, Batch: 64}
	if s := forecast.Of(j).Fastest.Staying; s <= 0 || s >= f.Speeds[2]/2 {
		t.Errorf("with the smallest batch it does %v, with the best %v", s, f.Speeds[2])
	}
	j.In.Batch = f.Batches[2]
	if s := forecast.Of(j).Fastest.Staying; s != 0 {
		t.Errorf("it has the best batch, and staying is %v", s)
	}
	j.Range.Most = 64
	if f := forecast.Of(j).Fastest; f != nil {
		t.Errorf("of one batch it is %+v", f)
	}
}
