package verify

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Point is one step of a training, over all of its ranks.
type Point struct {
	Step, Workers int
	Samples       []int     // that were taken, ascending; nil: not seen
	Sum, Mean     *float64  // of the losses that ranks differentiate, over ranks; nil: not seen
	Reported      *float64  // the loss that rank 0 reports; nil: not seen
	LR            []float64 // of the first optimizer's groups; nil: not seen
	Norm          *float64  // of the gradient; nil: not seen
	Scheduled     int       // steps of schedulers since the step before, on rank 0
	Masks         []string  // digests of the random state before the first dropout, by rank; "": none
	Backwards     []int     // backward passes, by rank
	LRs           bool      // ranks have unlike learning rates
}

// Tensor is what training has made of a parameter, or of a part of the optimizer's state.
type Tensor struct {
	Name    string
	Digest  string // of all values; "" where ranks hold parts
	Values  []float64
	Unalike bool // ranks that should hold the same do not
}

// Training is what was seen of one, whatever the worlds.
type Training struct {
	Points    []Point
	Tensors   []Tensor // at the end
	BatchNorm []string // layers that normalise by the statistics of a batch
	Stream    bool     // samples have no indices
	Worlds    []World
}

// World is what one world of a training took, in seconds.
type World struct {
	Rescaled bool `json:"rescaled"` // of the rescaled training
	Workers  int  `json:"workers"`
	Steps    int  `json:"steps"`
	// StartS is until all ranks had ended their first step, in which much is made and compiled, StepsS until
	// all had ended their last, and EndS is the rest: saving, and the end of the processes. Where no step was
	// seen, all is StartS.
	StartS float64 `json:"start_s"`
	StepsS float64 `json:"steps_s"`
	EndS   float64 `json:"end_s"`
}

// rankSeen is what the hooks have written of one rank.
type rankSeen struct {
	Steps     map[string]stepSeen `json:"steps"`
	Tensors   []tensorSeen        `json:"tensors"`
	BatchNorm []string            `json:"batch_norm"`
	Stream    bool                `json:"stream"`
	FirstS    *float64            `json:"first_s"`
	LastS     *float64            `json:"last_s"`
	values    []float64
}

type stepSeen struct {
	Samples   []int     `json:"samples"`
	Loss      *float64  `json:"loss"`
	Reported  *float64  `json:"reported"`
	LR        []float64 `json:"lr"`
	Square    *float64  `json:"square"`
	Sharded   bool      `json:"sharded"`
	Scheduled int       `json:"scheduled"`
	Backwards int       `json:"backwards"`
	Dropout   string    `json:"dropout"`
}

type tensorSeen struct {
	Name    string `json:"name"`
	Values  int    `json:"values"`
	Digest  string `json:"digest"`
	Sharded bool   `json:"sharded"`
}

// read takes in what the hooks have seen of a world.
func (w *world) read(t *Training) error {
	ranks := make([]rankSeen, w.size)
	for r := range ranks {
		if err := ranks[r].read(filepath.Join(w.dir, "seen", fmt.Sprintf("rank-%05d", r))); err != nil {
			return fmt.Errorf("what was seen of rank %d: %w: a script has to end by itself, not with os._exit", r, err)
		}
	}
	for step := w.begin; step < w.end; step++ {
		t.Points = append(t.Points, point(step, ranks))
	}
	t.Tensors, t.BatchNorm = tensors(ranks), ranks[0].BatchNorm
	t.Stream = t.Stream || ranks[0].Stream
	t.Worlds = append(t.Worlds, w.took(ranks))
	return nil
}

// took is what a world that has ended took; clocks that were set meanwhile make no time negative.
func (w *world) took(ranks []rankSeen) World {
	seconds := func(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
	began, ended := seconds(w.began), seconds(w.ended)
	first, last := began, began
	for _, r := range ranks {
		if r.FirstS == nil || r.LastS == nil {
			first, last = ended, ended
			break
		}
		first, last = max(first, *r.FirstS), max(last, *r.LastS)
	}
	first, last = min(first, ended), min(last, ended)
	last = max(first, last)
	return World{Rescaled: w.rescaled, Workers: w.size, Steps: w.end - w.begin, StartS: first - began, StepsS: last - first, EndS: ended - last}
}

func (r *rankSeen) read(name string) error {
	text, err := os.ReadFile(name + ".json")
	if err != nil {
		return err
	}
	if err = json.Unmarshal(text, r); err != nil {
		return err
	}
	values, err := os.ReadFile(name + ".bin")
	if err != nil {
		return err
	}
	r.values = make([]float64, len(values)/8)
	for i := range r.values {
		r.values[i] = math.Float64frombits(binary.LittleEndian.Uint64(values[8*i:]))
	}
	want := 0
	for _, t := range r.Tensors {
		want += t.Values
	}
	if want != len(r.values) {
		return fmt.Errorf("%s.bin has %d values of %d", name, len(r.values), want)
	}
	return nil
}

// point is one step of all ranks of a world.
func point(step int, ranks []rankSeen) Point {
	p := Point{Step: step, Workers: len(ranks)}
	sum, losses, square, squares := 0.0, 0, 0.0, 0
	for r := range ranks {
		s := ranks[r].Steps[strconv.Itoa(step)]
		p.Samples = append(p.Samples, s.Samples...)
		if s.Loss != nil {
			sum, losses = sum+*s.Loss, losses+1
		}
		if s.Square != nil && (s.Sharded || r == 0) {
			square, squares = square+*s.Square, squares+1
		}
		p.Masks, p.Backwards = append(p.Masks, s.Dropout), append(p.Backwards, s.Backwards)
		if r == 0 {
			p.Reported, p.LR, p.Scheduled = s.Reported, s.LR, s.Scheduled
		}
		p.LRs = p.LRs || !slices.Equal(p.LR, s.LR)
	}
	if losses == len(ranks) {
		mean := sum / float64(losses)
		p.Sum, p.Mean = &sum, &mean
	}
	if squares > 0 {
		norm := math.Sqrt(square)
		p.Norm = &norm
	}
	slices.Sort(p.Samples)
	return p
}

// savedArray begins the names of arrays that are seen as they are written into a checkpoint.
const savedArray = "saved "

// tensors are those of rank 0, and all parts of what ranks share.
func tensors(ranks []rankSeen) (all []Tensor) {
	at := make([]int, len(ranks))
	for n, seen := range ranks[0].Tensors {
		t := Tensor{Name: seen.Name, Digest: seen.Digest}
		for r := range ranks {
			if n >= len(ranks[r].Tensors) || ranks[r].Tensors[n].Name != seen.Name {
				t.Unalike = !strings.HasPrefix(seen.Name, savedArray) // which one rank may write for all
				continue
			}
			mine := ranks[r].Tensors[n]
			if r == 0 || seen.Sharded {
				t.Values = append(t.Values, ranks[r].values[at[r]:at[r]+mine.Values]...)
			}
			t.Unalike = t.Unalike || !seen.Sharded && mine.Digest != seen.Digest
			at[r] += mine.Values
		}
		if seen.Sharded {
			t.Digest = ""
		}
		all = append(all, t)
	}
	return all
}
