package reproduce

import (
	"testing"

	"github.com/bellows-ml/bellows/lab/batch"
)

// Its own policy stands beside what its simulator gives on the same file, where that was run, all others beside what was published.
func TestElasticFlowFigures(t *testing.T) {
	run := func(policy string, kept float64) *batch.Run {
		r := &batch.Run{Policy: policy, Nodes: 16}
		r.DeadlineSatisfied = &kept
		return r
	}
	p := elasticFlowFigure{figure: "9", kept: map[string]float64{"edf": 0.118, "elasticflow": 0.949}, simulated: 0.948, note: drawnAnew}
	for i, want := range []struct {
		published float64
		note      string
	}{{0.118, drawnAnew}, {0.948, "its simulator's on this file; published: 0.949"}, {}} {
		policy := []string{"edf", "elasticflow", "production/elasticflow"}[i]
		rows := p.findings([]*batch.Run{run(policy, 0.95)})
		f := rows[0]
		if want.published == 0 && f.Published != nil || want.published > 0 && (f.Published == nil || *f.Published != want.published) || f.Note != want.note || f.Ours != 0.95 {
			t.Errorf("%s: %+v, want %+v", policy, f, want)
		}
	}
	p.simulated = 0
	if f := p.findings([]*batch.Run{run("elasticflow", 0.95)})[0]; *f.Published != 0.949 || f.Note != drawnAnew {
		t.Errorf("%+v: its simulator was not run", f)
	}
}
