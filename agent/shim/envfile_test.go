package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellows-ml/bellows/agent/agenttest"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

const secret = "correct horse"

// secrets gives the job a file of them.
func (f *fixture) secrets(text string, mode os.FileMode) *fixture {
	f.t.Helper()
	f.order.EnvFile = filepath.Join(f.root, "secrets")
	agenttest.Write(f.t, f.order.EnvFile, text, mode)
	if err := os.Chmod(f.order.EnvFile, mode); err != nil {
		f.t.Fatal(err)
	}
	return f
}

func TestSecretsReachWorkersAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, `echo "$TOKEN/$PLAIN/$PATH" > got.tmp-$RANK; mv got.tmp-$RANK got-$RANK`)
	f.order.Env["PLAIN"] = "visible"
	f.secrets("TOKEN="+secret+"\nPLAIN=overridden\n", 0o600).start().stopped()
	for _, name := range []string{"got-0", "got-1"} {
		if got := f.awaitFile(name); got != secret+"/overridden/"+f.order.Env["PATH"]+"\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	f.retire()
	files, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range files {
		if b, err := os.ReadFile(filepath.Join(f.dir, e.Name())); err == nil && strings.Contains(string(b), secret) {
			t.Errorf("%s holds the secret", e.Name())
		}
	}
}

func TestNodesRefuseSecretsThatAreNone(t *testing.T) {
	t.Parallel()
	owned := func(f *fixture) {
		f.giveTo(1, 1)
		f.order.Owner = cluster.Owner{UID: 1, GID: 1, User: "daemon"}
	}
	testRefusals(t, map[string]refused{
		"no file": {
			func(f *fixture) { f.order.EnvFile = "/no/such/file" }, record.NodeRefused,
			[]string{"env file /no/such/file", "no such file", "same path on every node"},
		},
		"others may read it": {
			func(f *fixture) { f.secrets("A="+secret, 0o640) }, record.NodeRefused,
			[]string{"env file", "0640", "chmod 600"},
		},
		"a directory": {func(f *fixture) { f.order.EnvFile = f.root }, record.NodeRefused, []string{"not a plain file"}},
		"a pipe without a writer": {func(f *fixture) {
			f.order.EnvFile = filepath.Join(f.root, "pipe")
			if err := unix.Mkfifo(f.order.EnvFile, 0o600); err != nil {
				f.t.Fatal(err)
			}
		}, record.NodeRefused, []string{"not a plain file"}},
		"lines that are none": {
			func(f *fixture) { f.secrets("A=1\n"+secret+"\n", 0o600) }, record.NodeRefused,
			[]string{"env file", "line 2: use NAME=VALUE", "mend"},
		},
		"too much": {
			func(f *fixture) { f.secrets("A="+strings.Repeat("x", cluster.MaxEnvFileBytes), 0o600) }, record.NodeRefused,
			[]string{"more than 262144 bytes"},
		},
		"the owner may not read it": {
			func(f *fixture) { owned(f); f.secrets("A="+secret, 0o600) }, record.NodeRefused,
			[]string{"env file", "permission denied"},
		},
		"another user's": {func(f *fixture) {
			owned(f)
			f.secrets("A="+secret, 0o604)
			if err := os.Chown(f.order.EnvFile, 2, 2); err != nil {
				f.t.Fatal(err)
			}
		}, record.NodeRefused, []string{"env file", "belongs to another user", "owner own it"}},
	})
}

func TestWorkersMayPinAsMuchMemoryAsIsAllowed(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = 64 << 10 // as systems have it for people
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, 1, "ulimit -l > limit.tmp; ulimit -H -l > hard.tmp; mv hard.tmp hard; mv limit.tmp limit")
	f.start().stopped()
	if got, allowed := f.awaitFile("limit"), f.awaitFile("hard"); got != allowed || got == "64\n" {
		t.Errorf("pinned memory is limited to %q, allowed are %q", got, allowed)
	}
	f.retire()
}
