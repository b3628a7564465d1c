package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// limits is what jobs users may have.
type limits struct {
	cfg  *Config
	view *view
	room room
}

// check refuses a job beyond what its user may have, while he still listens,
// and one for which etcd has no room but the reserve. The leader has the last word
// on the first: a user may ask several agents at once.
func (l *limits) check(ctx context.Context, spec cluster.Spec, who cluster.Owner) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("write spec: %w", err)
	}
	why := ""
	if _, err = l.view.read(func(m *record.Mirror) {
		if allowed := m.Allowed(); !allowed.Exempts(who.UID) {
			why = allowed.Refuses(record.Submission{UID: who.UID, Spec: spec, Bytes: len(text), At: time.Now()}, m.Usage(who.UID))
		}
	}); err != nil {
		return err
	}
	if why != "" {
		return api.Fault(api.Limited, "%s", why)
	}
	if l.cfg.Space == nil {
		return nil
	}
	space, err := l.room.look(ctx, l.cfg.Space)
	switch {
	case err != nil: // then nothing can be written either, which is said in its own words
		l.cfg.Log.Warn().Err(err).Msg("cannot ask etcd how full it is")
	case space.Quota == 0:
		l.room.unknown.Do(func() {
			l.cfg.Log.Warn().Msg("etcd does not say what its quota is (versions before 3.6), so no reserve is kept: watch its size")
		})
	case space.Reserved():
		return api.Fault(api.Limited, "etcd has %d of its %d bytes in use, and keeps the rest for the jobs that there are: "+
			"compact and defragment it, or raise its quota", space.Used, space.Quota)
	}
	return nil
}

// roomEvery is how long an answer about etcd's size is used: users cannot submit
// enough in that time to use up the reserve.
const roomEvery = time.Second

// room remembers how full etcd is.
type room struct {
	mu      sync.Mutex
	at      time.Time
	last    record.Space
	unknown sync.Once
}

func (r *room) look(ctx context.Context, ask func(context.Context) (record.Space, error)) (record.Space, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < roomEvery {
		return r.last, nil
	}
	space, err := ask(ctx)
	if err == nil {
		r.at, r.last = time.Now(), space
	}
	return space, err
}
