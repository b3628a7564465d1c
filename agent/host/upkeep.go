package host

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/bellows-ml/bellows/agent"
	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/systemd"
	"github.com/bellows-ml/bellows/record"
)

const (
	// collectEvery is how often the node looks which generations the leader has
	// forgotten, and collectMost how many it looks for each time.
	collectEvery = time.Minute
	collectMost  = 16

	collectLane agent.Lane = "collect"
)

// upkeep is what an agent does now and then for itself. The loop owns it.
type upkeep struct {
	*shared
	runs    *runs
	session *session
	goals   *goals

	logsSwept time.Time // when old logs were last looked for
	checked   time.Time // when collected generations were last looked for
	announced bool
}

// checkCollected looks which of the generations that this node has stopped the
// leader has forgotten, so that their records here can go too. The oldest go
// first, so a job whose oldest is still there has lost none.
func (up *upkeep) checkCollected() {
	at := loop.Lane{What: collectLane}
	if up.Busy(at) || time.Since(up.checked) < collectEvery || !up.records.known(selfPart) {
		return
	}
	up.checked = time.Now()
	current := up.runs.current()
	var old []record.JobGen
	for jg := range up.records.self().Acks {
		if !slices.Contains(current, jg) {
			old = append(old, jg)
		}
	}
	if len(old) == 0 {
		return
	}
	slices.SortFunc(old, agent.Compare)
	up.Beside(at, func(ctx context.Context) func() {
		gone := map[record.JobGen]bool{}
		kept := map[cluster.JobID]bool{}
		for _, jg := range old {
			if kept[jg.Job] || len(gone) == collectMost {
				continue
			}
			_, exists, err := up.store.Get(ctx, record.PlanKey(jg.Job, jg.Generation))
			if err != nil || exists {
				kept[jg.Job] = true
				continue
			}
			gone[jg] = true
		}
		return func() { up.goals.collected = gone }
	})
}

// announce says once that the node is in the cluster and answers.
func (up *upkeep) announce() {
	if up.announced || up.session.presence.aliveRev == 0 || !up.records.known(selfPart) {
		return
	}
	up.announced = true
	up.Log.Info().Str("socket", up.cfg.Socket).Int("runs", len(up.runs.all)).Msg("ready")
	if err := systemd.Ready(); err != nil {
		up.Log.Warn().Err(err).Msg("cannot tell that it is ready")
	}
	if up.cfg.Ready != nil {
		up.cfg.Ready()
	}
}

// notifySystemd tells systemd's watchdog that the loop goes round.
func (up *upkeep) notifySystemd() {
	if err := systemd.Alive(); err != nil {
		up.Log.Warn().Err(err).Msg("cannot tell systemd's watchdog")
	}
}

// deleteLogs deletes logs that are too old or too many, now and then.
func (up *upkeep) deleteLogs() {
	at := loop.Lane{What: logsLane}
	if up.Busy(at) || !up.records.known(selfPart) || time.Since(up.logsSwept) < logsEvery {
		return
	}
	up.logsSwept = time.Now()
	running := map[string]bool{}
	for _, jg := range up.runs.current() {
		running[filepath.Join(string(jg.Job), layout.Generation(jg.Generation, ""))] = true
	}
	root, keep, modules := up.cfg.logDir(), up.cfg.KeepLogs, filepath.Join(up.cfg.DataDir, learnedDir)
	up.Beside(at, func(context.Context) func() {
		found, err := findLogs(root)
		var deleted []string
		for _, d := range surplusLogs(found, running, keep, time.Now()) {
			if errRemove := removeLogs(root, d); errRemove != nil {
				err = errors.Join(err, errRemove)
				continue
			}
			deleted = append(deleted, d.path)
		}
		err = errors.Join(err, deleteOld(modules, keep.Age))
		if err != nil {
			up.Log.Error().Err(err).Msg("cannot delete old logs yet")
		}
		if len(deleted) > 0 {
			up.Log.Info().Strs("logs", deleted).Msg("deleted old logs")
		}
		return func() {}
	})
}
