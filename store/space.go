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

// Space asks every endpoint how full it is, and returns the answer of the fullest:
// each member refuses writes by its own size. Pages that compaction has freed do
// not count: the file keeps them and takes them again before it grows.
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
	heard := false
	for i, a := range answers {
		if faults[i] == nil && (!heard || a.Used > space.Used) {
			space, heard = a, true
		}
	}
	if !heard {
		return space, fmt.Errorf("ask etcd how full it is: %w", named(errors.Join(faults...)))
	}
	return space, nil
}
