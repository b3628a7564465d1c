package shim

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bellows-ml/bellows/cluster"
)

// Needs gives the error that a start gives, and IsNeed knows it by its text.
func TestNeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := Order{
		Owner:   cluster.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), User: "me"},
		Command: []string{"/bin/sh"}, Workdir: dir,
	}
	if err := Needs(t.Context(), good, nil); err != nil {
		t.Errorf("all is there: %v", err)
	}
	for name, change := range map[string]func(*Order){
		"workdir": func(o *Order) { o.Workdir = filepath.Join(dir, "missing") },
		"file":    func(o *Order) { o.Workdir = "/bin/sh" },
		"path":    func(o *Order) { o.Command = []string{"no-such-program"} },
		"program": func(o *Order) { o.Command = []string{"./missing"} },
		"secrets": func(o *Order) { o.EnvFile = filepath.Join(dir, "missing") },
		"user":    func(o *Order) { o.Owner = cluster.Owner{UID: 3_000_000_000, User: "no-such-user"} },
	} {
		o := good
		change(&o)
		err := Needs(t.Context(), o, nil)
		if _, isMissing := errors.AsType[missing](err); !isMissing {
			t.Errorf("%s: %v", name, err)
		}
	}
}
