package logprogress

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// said is what one line says. step < 0: nothing of the step; samples < 0: nothing of those.
type said struct {
	step, samples int64
	loss          loss
}

// loss is what a line says of one.
type loss struct {
	value *float64 // finite; nil = it says none
	bad   bool     // it says one that is NaN or infinite
}

func (l loss) told() bool { return l.value != nil || l.bad }

var nothing = said{step: -1, samples: -1}

// pattern reads lines by the pattern of a job's owner.
type pattern struct {
	re                  *regexp.Regexp
	step, loss, samples int // groups; ≤ 0: there is none
	unreadable          string
}

func newPattern(text string) (*pattern, error) {
	re, err := cluster.CompileProgress(text)
	if err != nil {
		return nil, err
	}
	p := &pattern{re: re, step: re.SubexpIndex(cluster.ProgressStep), loss: re.SubexpIndex(cluster.ProgressLoss), samples: re.SubexpIndex(cluster.ProgressSamples)}
	if p.step < 0 {
		p.step = 1
	}
	return p, nil
}

func (p *pattern) read(line []byte) said {
	found := p.re.FindSubmatch(line)
	if found == nil {
		return nothing
	}
	s := nothing
	if text := string(found[p.step]); text != "" {
		var ok bool
		if s.step, ok = whole(text); !ok {
			p.unreadable = text
			return nothing
		}
	}
	if p.samples > 0 {
		if n, ok := whole(string(found[p.samples])); ok {
			s.samples = n
		}
	}
	if p.loss > 0 {
		s.loss = readLoss(string(found[p.loss]))
	}
	return s
}

// whole reads a count as people print it: 12, 1,200, 1_200 or 12.0; within the bounds that the
// module's reports have.
func whole(text string) (int64, bool) {
	text = strings.NewReplacer(",", "", "_", "").Replace(strings.TrimSpace(text))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, errFloat := strconv.ParseFloat(text, 64)
		if errFloat != nil || f != math.Trunc(f) || math.Abs(f) > record.MaxCount {
			return -1, false
		}
		n = int64(f)
	}
	if n < 0 || n > record.MaxCount {
		return -1, false
	}
	return n, true
}

// readLoss reads a loss as people print it: none where that is no word for a number.
func readLoss(text string) loss {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0): // also of one that is out of range
		return loss{bad: true}
	case err != nil:
		return loss{}
	}
	return loss{value: &f}
}
