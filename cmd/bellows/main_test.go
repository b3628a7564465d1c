package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bellows-ml/bellows/cli/command/commandtest"
	"github.com/bellows-ml/bellows/cli/dev"
	"github.com/bellows-ml/bellows/cli/socketpath"
)

var update = flag.Bool("update", false, "rewrite the expected files; the diff is the review")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellows": main})
}

// TestScripts runs testdata/script/*.txtar: each is a story of commands and what they say.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			// A socket's path is short, and a test's own.
			dir, err := os.MkdirTemp("", "bws") //nolint:usetesting // see above
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(dir) })
			env.Setenv("SHORT", dir)
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = taken.Close() })
			env.Setenv("TAKEN", fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)) // a port that is in use
			env.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=0")         // a race ends a command, and no command waits a second for races before it ends
			env.Setenv("BIN", filepath.SplitList(env.Getenv("PATH"))[0])      // bellows, and nothing else
			env.Setenv(socketpath.Variable, filepath.Join(dir, "a.sock"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": commandtest.Status, "await": await, "nothing": nothing},
	})
}

// awaited bounds how long a script waits for anything.
const awaited = 2 * time.Minute

// await [-m PATTERN] COMMAND… repeats a command until it succeeds and says
// something, which a line of its output is to match.
func await(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(".")
	if args[0] == "-m" {
		pattern, args = regexp.MustCompile("(?m)"+args[1]), args[2:]
	}
	for deadline := time.Now().Add(awaited); ; time.Sleep(20 * time.Millisecond) {
		if err := ts.Exec(args[0], args[1:]...); err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within %s: %v", awaited, args)
		}
	}
}

// nothing left of DIR demands that no process of a dev cluster is left.
func nothing(ts *testscript.TestScript, _ bool, args []string) {
	if left := dev.Processes(args[2]); len(left) > 0 {
		ts.Fatalf("processes are left: %+v", left)
	}
}
