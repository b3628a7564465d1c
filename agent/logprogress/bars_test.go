package logprogress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
)

// drawn is a bar as tqdm draws it: n of total, each of which takes pace.
func drawn(what string, n, total int, pace time.Duration, rest string) string {
	show := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60) }
	left := show(time.Duration(total-n) * pace)
	if n == 0 {
		left = "?"
	}
	if rest != "" {
		rest = ", " + rest
	}
	return fmt.Sprintf("\r%s%3d%%|█▎        | %d/%d [%s<%s, %5.2fit/s%s]", what, 100*n/total, n, total, show(time.Duration(n)*pace), left, 1/pace.Seconds(), rest)
}

// play feeds what is printed at some second each, and returns the words.
type play struct {
	t   *testing.T
	r   *Reader
	now time.Duration
	all []Word
}

func newPlay(t *testing.T, start Start) *play {
	return &play{t: t, r: reader(t, cluster.ProgressAuto, start)}
}

// run draws a bar from one n to another.
func (p *play) run(what string, from, to, total int, pace time.Duration, rest string) {
	for n := from; n <= to; n++ {
		p.print(drawn(what, n, total, pace, rest))
		p.now += pace
	}
	p.print("\n")
}

func (p *play) print(text string) {
	if w, ok := p.r.Add([]byte(text), p.now); ok {
		p.all = append(p.all, w)
	}
}

func (p *play) last() int64 {
	if len(p.all) == 0 {
		return -1
	}
	return p.all[len(p.all)-1].Step
}

// Lines as the trainers print them, by their own versions.
func TestKnownLines(t *testing.T) {
	for line, want := range map[string]string{
		`  3%|▎         | 30/1000 [00:05<02:40,  6.03it/s]`:                                   `"" 30/1000 epoch -1, 2m45s`,
		`Epoch 3:  45%|████▌     | 45/100 [00:05<00:06,  8.71it/s, v_num=0, train_loss=0.52]`: `"Epoch #:" 45/100 epoch 3, 11s`,
		`Epoch 2/10: 100%|##########| 100/100 [1:00:01<00:00,  1.20s/it]`:                     `"Epoch #/#:" 100/100 epoch 1, 1h0m1s`,
		`epoch: [4/9]   1%|          | 1/100 [00:00<?, ?it/s]`:                                `"epoch: [#/#]" 1/100 epoch 3, 0s`,
		`Downloading data: 100%|██████████| 450/4500 [00:12<01:00, 1.5it/s]`:                  "",
		`model.safetensors: 12%|█▏        | 120M/1.0G [00:12<01:28, 9.97MB/s]`:                "",
		`Map: 45%|████▌     | 4500/10000 [00:05<00:06, 900.1examples/s]`:                      "",
		`Validation DataLoader 0:  10%|█         | 1/10 [00:00<00:01, 8.1it/s]`:               "",
		`Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 8.1it/s]`:           "",
		`Loading checkpoint shards:  50%|█████     | 1/2 [00:10<00:10, 10.1s/it]`:             "",
		`Fetching 5 files:  40%|████      | 2/5 [00:10<00:15, 5.1s/it]`:                       "",
		`  3%|▎         | 2000/1000 [00:05<02:40,  6.03it/s]`:                                 "",
		`  3%|▎         | 30/1000 [00:05<02:40,  6.03examples/s]`:                             "",
		`step 30 of 1000`: "",
	} {
		b, _, ok := readBar([]byte(line))
		got := ""
		if ok {
			got = fmt.Sprintf("%q %d/%d epoch %d, %v", b.what, b.n, b.total, b.epoch, b.all)
		}
		if got != want {
			t.Errorf("%s\nread as %s, want %s", line, got, want)
		}
	}
}

// Trainer: one bar over all steps, evaluations in between, the loss on lines of its own.
func TestTrainersBar(t *testing.T) {
	p := newPlay(t, Start{})
	p.run("Map: ", 0, 300, 300, 100*time.Millisecond, "")
	p.run("", 0, 200, 1000, 200*time.Millisecond, "")
	p.print("{'loss': 2.5, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.2}\n")
	p.run("", 0, 50, 50, 300*time.Millisecond, "") // an evaluation
	p.run("", 201, 205, 1000, 200*time.Millisecond, "")
	if w := p.all[len(p.all)-1]; w.Step != 205 || w.Loss == nil || *w.Loss != 2.5 || !strings.Contains(w.Line, "/1000 [") {
		t.Errorf("told %+v", w)
	}
	for _, w := range p.all {
		if w.Step < 40 {
			t.Fatalf("believed at step %d already, after %v", w.Step, time.Duration(w.Step)*200*time.Millisecond)
		}
	}
}

// Lightning: a bar for each epoch, with its number, and the loss behind it.
func TestLightningsBars(t *testing.T) {
	p := newPlay(t, Start{})
	p.run("Sanity Checking DataLoader 0: ", 0, 2, 2, time.Second, "")
	for e := range 3 {
		p.run(fmt.Sprintf("Epoch %d: ", e), 0, 100, 100, 50*time.Millisecond, fmt.Sprintf("v_num=0, train_loss=0.%d", e+1))
		p.run("Validation DataLoader 0: ", 0, 40, 40, 50*time.Millisecond, "")
	}
	if w := p.all[len(p.all)-1]; w.Step != 300 || w.Loss == nil || *w.Loss != 0.3 {
		t.Errorf("told %+v", w)
	}
	// A resumed one begins in the middle of an epoch, whose number it knows.
	p = newPlay(t, Start{Step: 250})
	p.run("Epoch 2: ", 51, 100, 100, time.Second, "")
	if p.all[0].Step < 251 || p.last() != 300 || p.r.Problem() != "" {
		t.Errorf("told %+v to %+v: %s", p.all[0], p.last(), p.r.Problem())
	}
}

// Nothing is believed of an evaluation or a download, however they are called, where they
// end within a minute; and of what is as long, that which takes longest.
func TestOtherBarsAreNotBelieved(t *testing.T) {
	p := newPlay(t, Start{})
	for range 20 { // evaluations of a script that prints its steps otherwise
		p.run("", 0, 40, 40, time.Second, "")
	}
	p.run("Downloading: ", 0, 300, 300, time.Second, "")
	if p.last() >= 0 {
		t.Errorf("told %+v", p.all[0])
	}
	if got := p.r.Problem(); !strings.Contains(got, "--progress 'auto': in 1000 lines there is no bar") {
		t.Errorf("problem %q", got)
	}
	p = newPlay(t, Start{})
	for n := range 300 { // one within the other
		p.print(drawn("outer ", n/10, 1000, 10*time.Second, ""))
		p.print(drawn("inner ", n, 300, time.Second, ""))
		p.now += time.Second
	}
	if len(p.all) == 0 || !strings.HasPrefix(p.all[0].Line, "outer") {
		t.Errorf("told %d words, first %+v", len(p.all), p.all[:min(1, len(p.all))])
	}
}

// A bar that has hardly moved is not believed, however long it has been there.
func TestABarHasToMove(t *testing.T) {
	p := newPlay(t, Start{})
	p.run("", 0, moves+2, 1000, lives, "")
	if len(p.all) == 0 || p.all[0].Step != moves {
		t.Errorf("told %s", steps(p.all))
	}
}

// A script that draws ever new bars does not fill the agent's memory, and the training's is still known by --steps.
func TestBarsAreBounded(t *testing.T) {
	p := newPlay(t, Start{Steps: 10})
	for n := range 5 * maxBars {
		p.run("", 0, 1, 100+n, time.Second, "")
	}
	if len(p.r.auto.seen) != maxBars || p.last() >= 0 {
		t.Errorf("%d bars are remembered, told %s", len(p.r.auto.seen), steps(p.all))
	}
	if p.run("", 0, 3, 10, time.Second, ""); p.last() != 3 {
		t.Errorf("told %s", steps(p.all))
	}
}

// The bar whose total is that of --steps is the training's from its first line on.
func TestABarOfAllSteps(t *testing.T) {
	p := newPlay(t, Start{Steps: 100})
	p.run("", 0, 3, 40, time.Second, "")
	p.run("", 0, 3, 100, time.Second, "")
	if len(p.all) != 4 || p.last() != 3 {
		t.Errorf("told %s", steps(p.all))
	}
}

// Epochs without a number are counted on; another bar after the last is told of.
func TestUnnumberedEpochsCountOn(t *testing.T) {
	p := newPlay(t, Start{})
	for range 3 {
		p.run("train ", 0, 90, 90, time.Second, "")
	}
	if p.last() != 270 || p.r.Problem() != "" {
		t.Errorf("told %d: %s", p.last(), p.r.Problem())
	}
	p.run("fit ", 0, 20, 90, time.Second, "")
	if p.last() != 270 || !strings.Contains(p.r.Problem(), "the bar that it reads is full, and another is being drawn") {
		t.Errorf("told %d: %s", p.last(), p.r.Problem())
	}
}
