package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store/etcdtest"
	"github.com/bellows-ml/bellows/store/server"
)

// An embedded etcd says how full it is and what its quota is.
func TestSpace(t *testing.T) {
	t.Parallel()
	s := etcdtest.Open(t, etcdtest.Endpoint(t))
	space, err := s.Space(t.Context())
	if err != nil || space.Used <= 0 || space.Quota <= space.Used || space.Reserved() {
		t.Errorf("%+v, %v", space, err)
	}
}

// After a peak etcd's file is as large as before, but most of it is free.
func TestSpaceAfterAPeak(t *testing.T) {
	t.Parallel()
	s := etcdtest.Open(t, etcdtest.Endpoint(t))
	const mib = 1 << 20
	for i := range 8 {
		etcdtest.Commit(t, s, etcdtest.Put(fmt.Sprintf("/peak/%d", i), strings.Repeat("x", mib)))
	}
	used := func() int64 {
		space, err := s.Space(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return space.Used
	}
	for end := time.Now().Add(time.Minute); used() < 8*mib; time.Sleep(10 * time.Millisecond) { // etcd commits to its file a little later
		if time.Now().After(end) {
			t.Fatalf("8 MiB are there, and %d bytes are said to be used", used())
		}
	}
	etcdtest.Commit(t, s, record.DeletePrefix("/peak/"))
	if err := server.NewAdmin(s).Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); used() > 4*mib; time.Sleep(10 * time.Millisecond) {
		etcdtest.Commit(t, s, etcdtest.Put("/later", "x")) // etcd's file takes pages as free with the next write
		if time.Now().After(end) {
			t.Fatalf("nothing is there, and %d bytes are said to be used", used())
		}
	}
}
