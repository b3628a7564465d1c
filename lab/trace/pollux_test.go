package trace

import (
	"strings"
	"testing"
)

const polluxHead = "model,init_batch_size,max_batch_size,min_local_bsz,max_local_bsz,max_epochs,target_metric\n"

func TestPolluxTablesRefuse(t *testing.T) {
	fresh := func() PolluxModels {
		m, err := ReadPolluxModels("m", strings.NewReader(polluxHead+"bert,12,24,4,12,2,\n"))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	models := func(text string) error { _, err := ReadPolluxModels("m", strings.NewReader(text)); return err }
	runs := func(text string) error { return fresh().ReadRuns("r", strings.NewReader(runsHead+text)) }
	placements := func(text string) error { return fresh().ReadPlacements("p", strings.NewReader(placementsHead+text)) }
	wide := func(text string) error { return fresh().ReadWide("w", strings.NewReader(wideHead+text)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{models("model\n"), "m:1: columns \"model\": not those of this table; use model,init_batch_size"},
		{models(polluxHead + "b,1,2,1,2,3,\nb,1,2,1,2,3,\n"), `m:3: model "b": named twice`},
		{models(polluxHead + "b,1,2,1,2,3,0.9\n"), `target_metric "0.9": not empty`},
		{models(polluxHead + "b,1,-2,1,2,3,\n"), `max_batch_size "-2": negative`},
		{runs("gpt,12,1,1,1,1,1\n"), `r:2: model "gpt": not among the models`},
		{runs("bert,12,5,5,,1,1\nbert,12,5,9,,1,1\n"), `r:3: progress "5": not more than in the epoch before`},
		{runs("bert,12,5,5,,1,1\n"), `r: model "bert" batch 12: 1 epochs of 2: is the file cut off?`},
		{runs("bert,12,5,5,,1,1\nbert,12,9,9,,1,1\n"), `r: model "bert": no training at its batches 12 to 24`},
		{placements("bert,T4,1,4,0.5,0.6\n"), `p:2: sync_time "0.6": more than step_time 0.5`},
		{placements("bert,T4,1,4,0.5,0.1\nbert,T4,1,4,0.6,0.1\n"), `p:3: local_bsz "4": not more than in the line before`},
		{placements("bert,T4,2,4,0.5,0.1\n"), "no step time on one device"},
		{wide("bert,T4,6,6,4,nan,0\n"), `w:2: step_time "nan": not a finite number`},
		{wide("gpt,T4,6,6,4,1,0\n"), "not among the models"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v\nwant …%s…", c.err, c.want)
		}
	}
}

const (
	runsHead       = "model,global_batch,progress,iteration,metric,grad_sqr,grad_var\n"
	placementsHead = "model,gpu_type,placement,local_bsz,step_time,sync_time\n"
	wideHead       = "model,gpu_type,num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
)

func TestPolluxPlacements(t *testing.T) {
	m, err := ReadPolluxModels("m", strings.NewReader(polluxHead+"bert,12,24,4,12,2,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err = m.ReadPlacements("p", strings.NewReader(placementsHead+"bert,T4,1,4,0.5,0\nbert,T4,42,4,0.75,0.25\n")); err != nil {
		t.Fatal(err)
	}
	if got := m["bert"].Placements[42]; len(got) != 1 || got[0] != (PolluxPoint{Nodes: 2, Workers: 6, Local: 4, Step: 0.75, Sync: 0.25}) {
		t.Errorf("%+v", got)
	}
}
