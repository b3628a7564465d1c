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
	// Inputs are digests of what the trained module was given, sample by sample, by rank; nil: not seen on all ranks.
	Inputs [][]string

	// All of these are of rank 0. Place is how far the scheduler said that it was, in its steps; nil: there is none. Clipped is how
	// often gradients were clipped, Normalised of how many samples at once the first layer of batch statistics took
	// them (0: there is none), PassEnded whether a pass over the data had ended since the step before,
	// PassBatches how many batches one has (0: not known), and Precision the type of numbers that was computed with.
	Place      *int
	Clipped    int
	Normalised int
	PassEnded  bool
	Precision  string

	PassBatches int
}

// Tensor is what training has made of a parameter, or of a part of the optimizer's state.
type Tensor struct {
	Name    string
	Digest  string // of all values; "" where ranks hold parts
	Values  []float64
	Unalike bool        // ranks that should hold the same do not
	Others  [][]float64 // what other ranks hold, where it is something else; any of them may be saved
}

// Training is what was seen of one, whatever the worlds.
type Training struct {
	Points    []Point
	Tensors   []Tensor // at the end
	BatchNorm []string // layers that normalise by the statistics of a batch
	Stream    bool     // samples have no indices
	Worlds    []World
	Began     []Tensor // the state with which the first world comes to its first step
	Resumes   []Resume // one for each world after the first
	Held      []Holding
}

// Resume is how a world has gone on from what the one before had saved.
type Resume struct {
	Step, Workers int
	// Saved is the state of the checkpoint, and Began with what the world came to its first step. A state without values
	// is not known.
	Saved, Began []Tensor
}

// Holding is what the script held in a world beside the optimizers' state, on rank 0, by the variable's name: at the first step
// and after the last.
type Holding struct{ Began, Ended map[string]Held }

// Held is a tensor: its digest, and whether a parameter had its value in that step.
type Held struct {
	Digest string
	Copy   bool
}

// UnmarshalJSON reads the pair that the hooks write.
func (h *Held) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.Digest, &h.Copy})
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
	Began     []tensorSeen        `json:"began"`
	BatchNorm []string            `json:"batch_norm"`
	Stream    bool                `json:"stream"`
	HeldBegan map[string]Held     `json:"held_began"`
	Held      map[string]Held     `json:"held"`
	FirstS    *float64            `json:"first_s"`
	LastS     *float64            `json:"last_s"`
	values    []float64
	before    []float64 // of Began
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
	Inputs    []string  `json:"inputs"`

	Place      *int   `json:"place"`
	Clipped    int    `json:"clipped"`
	Normalised int    `json:"normalised"`
	Passes     int    `json:"passes"`
	Pass       int    `json:"pass"`
	Precision  string `json:"precision"`
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
	began := make([]part, len(ranks))
	ended := make([]part, len(ranks))
	for r := range ranks {
		began[r], ended[r] = part{ranks[r].Began, ranks[r].before}, part{ranks[r].Tensors, ranks[r].values}
	}
	if w.from != nil {
		t.Resumes = append(t.Resumes, Resume{Step: w.begin, Workers: w.size, Saved: t.Tensors, Began: tensors(began)})
	} else {
		t.Began = tensors(began)
	}
	t.Held = append(t.Held, Holding{ranks[0].HeldBegan, ranks[0].Held})
	t.Tensors, t.BatchNorm = tensors(ended), ranks[0].BatchNorm
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
	if r.values, err = readValues(name+".bin", r.Tensors); err != nil || len(r.Began) == 0 {
		return err
	}
	r.before, err = readValues(name+".began.bin", r.Began)
	return err
}

// readValues reads the values of tensors, which follow each other in a file.
func readValues(name string, of []tensorSeen) ([]float64, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(b)/8)
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	want := 0
	for _, t := range of {
		want += t.Values
	}
	if want != len(values) {
		return nil, fmt.Errorf("%s has %d values of %d", filepath.Base(name), len(values), want)
	}
	return values, nil
}

// point is one step of all ranks of a world.
func point(step int, ranks []rankSeen) Point {
	p := Point{Step: step, Workers: len(ranks)}
	sum, losses, square, squares := 0.0, 0, 0.0, 0
	p.Inputs = inputs(step, ranks)
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
			p.Reported, p.LR, p.Scheduled, p.Place = s.Reported, s.LR, s.Scheduled, s.Place
			p.Clipped, p.Normalised, p.PassEnded, p.Precision = s.Clipped, s.Normalised, s.Passes > 0, s.Precision
			p.PassBatches = s.Pass
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

// inputs are those of all ranks in a step; nil: they were not seen on each.
func inputs(step int, ranks []rankSeen) (all [][]string) {
	for r := range ranks {
		mine := ranks[r].Steps[strconv.Itoa(step)].Inputs
		if mine == nil {
			return nil
		}
		all = append(all, mine)
	}
	return all
}

// savedArray begins the names of arrays that are seen as they are written into a checkpoint.
const savedArray = "saved "

// part is what a rank has of a state.
type part struct {
	tensors []tensorSeen
	values  []float64
}

// tensors are those of rank 0, and all parts of what ranks share.
func tensors(ranks []part) (all []Tensor) {
	at := make([]int, len(ranks))
	for n, seen := range ranks[0].tensors {
		t := Tensor{Name: seen.Name, Digest: seen.Digest}
		for r := range ranks {
			if n >= len(ranks[r].tensors) || ranks[r].tensors[n].Name != seen.Name {
				t.Unalike = !strings.HasPrefix(seen.Name, savedArray) && !strings.HasPrefix(seen.Name, ofAverage) // which one rank may keep for all
				continue
			}
			mine := ranks[r].tensors[n]
			if r == 0 || seen.Sharded {
				t.Values = append(t.Values, ranks[r].values[at[r]:at[r]+mine.Values]...)
			}
			if !seen.Sharded && mine.Digest != seen.Digest {
				t.Unalike, t.Others = true, append(t.Others, ranks[r].values[at[r]:at[r]+mine.Values])
			}
			at[r] += mine.Values
		}
		if seen.Sharded {
			t.Digest = ""
		}
		all = append(all, t)
	}
	return all
}
