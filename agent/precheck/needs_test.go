package precheck

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bellows-ml/bellows/agent/run"
	"github.com/bellows-ml/bellows/cluster"
)

// Needs gives the error that a start gives, and IsNeed knows it by its text.
func TestNeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := run.Order{
		Spec:  cluster.Spec{Command: []string{"/bin/sh"}, Workdir: dir},
		Owner: cluster.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), User: "me"},
	}
	if err := Needs(t.Context(), good, nil); err != nil {
		t.Errorf("all is there: %v", err)
	}
	for name, change := range map[string]func(*run.Order){
		"workdir": func(o *run.Order) { o.Workdir = filepath.Join(dir, "missing") },
		"file":    func(o *run.Order) { o.Workdir = "/bin/sh" },
		"path":    func(o *run.Order) { o.Command = []string{"no-such-program"} },
		"program": func(o *run.Order) { o.Command = []string{"./missing"} },
		"secrets": func(o *run.Order) { o.EnvFile = filepath.Join(dir, "missing") },
		"user":    func(o *run.Order) { o.Owner = cluster.Owner{UID: 3_000_000_000, User: "no-such-user"} },
	} {
		o := good
		change(&o)
		err := Needs(t.Context(), o, nil)
		if _, isMissing := errors.AsType[missing](err); !isMissing {
			t.Errorf("%s: %v", name, err)
		}
	}
}
