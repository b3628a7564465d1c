package store

import (
	"strings"
	"testing"
)

func TestCheckEndpoint(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"127.0.0.1:2379", "[::1]:2379", "etcd.example.com:2379", "http://10.0.0.1:2379", "https://etcd:1", "unix:///run/etcd.sock"} {
		if err := CheckEndpoint(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "x", "127.0.0.1", "127.0.0.1:", ":2379", "::1:2379", "h:port", "h:0", "h:65536", "http://h", "ftp://h:1", "https://:2379"} {
		if err := CheckEndpoint(bad); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
