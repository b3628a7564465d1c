package api

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// keepNames has a node know the modules of a job.
func (a *agent) keepNames(t *testing.T, job cluster.JobID, text string) {
	t.Helper()
	if err := os.MkdirAll(a.server.cfg.ModulesDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.server.cfg.ModulesDir, string(job)), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A node asks those of the job's newest world for names of modules, over either way to an
// agent, and goes on to the next where one has none.
func TestNamesOfModulesAreAskedOfTheWorld(t *testing.T) {
	store, n1, n2 := cluster2(t)
	n3 := serve(t, store, "n3", nil)
	if _, err := n3.server.Modules(t.Context(), "train-aaaaaa"); CodeOf(err) != NotFound || !strings.Contains(err.Error(), "node n2 has no names") {
		t.Errorf("no node has any: %v", err)
	}
	n2.keepNames(t, "train-aaaaaa", `{"modules":["torch"]}`)
	got, err := n3.server.Modules(t.Context(), "train-aaaaaa")
	if err != nil || string(got) != `{"modules":["torch"]}` {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err = n3.server.Modules(t.Context(), "other-aaaaaa"); CodeOf(err) != NotFound {
		t.Errorf("a job without a world: %v", err)
	}
	ca := authority(t)
	n3.server.cfg.Identity = certified(t, ca, "n3")
	store.put(t, record.Put(record.AliveKey("n3"), record.Alive{}))
	n2.serveNodes(t, certified(t, ca, "n2"))
	n1.stop()
	eventually(t, "n2 answers over TLS", func() bool {
		got, err = n3.server.Modules(t.Context(), "train-aaaaaa")
		return err == nil && string(got) == `{"modules":["torch"]}`
	})
	n2.keepNames(t, "train-aaaaaa", string(bytes.Repeat([]byte("x"), record.MaxModules+1)))
	if got, err = n3.server.Modules(t.Context(), "train-aaaaaa"); err == nil {
		t.Errorf("more than may be is taken: %d bytes", len(got))
	}
}

// Names of modules are for the owner and root, as logs are.
func TestNamesOfModulesAreForTheOwner(t *testing.T) {
	store := newFakeStore()
	store.admit(t, "train-aaaaaa", self(), record.State{})
	thief := serve(t, store, "n1", &cluster.Owner{UID: 4242, User: "mallory"})
	thief.keepNames(t, "train-aaaaaa", `{}`)
	for path, want := range map[string]Code{"train-aaaaaa": Forbidden, "none-aaaaaa": NotFound, "../logs": NotFound} {
		if err := thief.call(t.Context(), http.MethodGet, "/v1/node/modules?job="+path, nil, nil); CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
