package store_test

import "testing"

// An embedded etcd says how full it is and what its quota is.
func TestSpace(t *testing.T) {
	t.Parallel()
	s := open(t, startServer(t, embedded(t.TempDir())).Endpoint())
	space, err := s.Space(t.Context())
	if err != nil || space.Used <= 0 || space.Quota <= space.Used || space.Reserved() {
		t.Errorf("%+v, %v", space, err)
	}
}
