package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellows-ml/bellows/record"
)

// Space asks every endpoint for the size of its database and returns the largest:
// each member refuses writes by its own size. Pages that compaction has freed do
// not count, since the file reuses them before it grows.
func (s *Store) Space(ctx context.Context) (space record.Space, err error) {
	defer s.observed("status", time.Now(), &err)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	endpoints := s.client.Endpoints()
	answers, faults := make([]record.Space, len(endpoints)), make([]error, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() {
			answer, err := s.client.Status(ctx, endpoint)
			if faults[i] = err; err == nil {
				answers[i] = record.Space{Used: cmp.Or(answer.DbSizeInUse, answer.DbSize), Quota: answer.DbSizeQuota}
			}
		})
	}
	wg.Wait()
	answered := false
	for i, a := range answers {
		if faults[i] == nil && (!answered || a.Used > space.Used) {
			space, answered = a, true
		}
	}
	if !answered {
		return space, fmt.Errorf("ask etcd how full it is: %w", Named(errors.Join(faults...)))
	}
	return space, nil
}
