package server_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/store/etcdtest"
	"github.com/bellows-ml/bellows/store/server"
)

// serveVariable makes this test binary an embedded etcd in the directory that it names.
const serveVariable = "BELLOWS_TEST_SERVE_ETCD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveVariable); dir != "" {
		etcd, err := server.Start(context.Background(), server.Config{DataDir: dir, Name: "test"})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(etcd.Endpoint())
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

// Acknowledged writes survive SIGKILL, and the next start can use the directory.
func TestEmbeddedSurvivesKill(t *testing.T) {
	t.Parallel()
	const crashes, writes = 3, 50
	dir := t.TempDir()
	applied := 0
	for range crashes {
		served := exec.CommandContext(t.Context(), os.Args[0])
		served.Env = append(os.Environ(), serveVariable+"="+dir)
		out, err := served.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err = served.Start(); err != nil {
			t.Fatal(err)
		}
		endpoint, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		s, steady := etcdtest.OpenHasty(t, strings.TrimSpace(endpoint)), etcdtest.Open(t, strings.TrimSpace(endpoint))
		for range writes {
			etcdtest.Commit(t, steady, etcdtest.Put(fmt.Sprintf("k/%06d", applied), ""))
			applied++
		}
		if err = served.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err = served.Wait(); err == nil {
			t.Fatal("a killed server exited in good order")
		}
		if outcome := s.Commit(t.Context(), record.Txn{Then: []record.Op{etcdtest.Put("lost", "")}}); outcome.Result != record.Unknown {
			t.Errorf("commit without a server: %+v", outcome)
		}
	}
	s := etcdtest.Open(t, etcdtest.Start(t, etcdtest.Config(dir)).Endpoint())
	kvs, _, err := s.Range(t.Context(), "k/")
	if err != nil || len(kvs) != applied {
		t.Errorf("%d of %d acknowledged writes are there, %v", len(kvs), applied, err)
	}
}
