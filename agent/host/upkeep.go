package host

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/bellows-ml/bellows/agent/host/loop"
	"github.com/bellows-ml/bellows/checkpoint/layout"
	"github.com/bellows-ml/bellows/internal/systemd"
)

// upkeep is what an agent does now and then for itself. The loop owns it.
type upkeep struct {
	*shared
	runs    *runs
	session *session

	logsSwept time.Time // when old logs were last looked for
	announced bool
}

// announce says once that the node is in the cluster and answers.
func (up *upkeep) announce() {
	if up.announced || !up.session.joined() {
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
