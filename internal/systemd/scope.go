package systemd

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Slice contains the scopes of all jobs, so that an operator can bound or watch them together.
const Slice = "bellows.slice"

// tryBound is how long the service manager may take to make a scope. It does it in milliseconds.
const tryBound = 10 * time.Second

// Managed reports whether this process is a service of a running systemd, which
// would count what it starts as parts of that service.
func Managed() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil && os.Getenv("INVOCATION_ID") != ""
}

// TryScope makes a scope and ends it: nil means that InScope works here. An error
// says why not: no systemd-run, no way to the service manager, or no right to ask it.
func TryScope(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryBound)
	defer cancel()
	argv := InScope(Scope{Name: "bellows-try-" + unique(), Description: "Bellows tries whether it can make scopes"}, []string{"/bin/sh", "-c", ":"})
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // made here
	if err != nil {
		return fmt.Errorf("make a scope: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Scope is a group of processes that the service manager keeps apart from services.
type Scope struct {
	Name        string // without .scope; letters, digits, dots, dashes and underscores
	Description string
	Properties  []string // Name=value, as systemd.resource-control has them
}

// InScope returns the command that runs argv in a transient scope of its own. It
// becomes argv in place: the same process, with the same open files. It fails if
// a scope of that name exists; systemd forgets a scope when its last process ends.
func InScope(s Scope, argv []string) []string {
	command := []string{
		"systemd-run", "--scope", "--quiet", "--collect", "--unit=" + s.Name + ".scope", "--description=" + s.Description, "--slice=" + Slice,
		// The processes divide their cgroup themselves; and at shutdown they end
		// before the file systems that they save on.
		"--property=Delegate=yes", "--property=After=remote-fs.target",
	}
	if os.Geteuid() != 0 {
		command = append(command, "--user")
	}
	for _, p := range s.Properties {
		command = append(command, "--property="+p)
	}
	return append(append(command, "--"), argv...)
}

// ScopeName is one that no scope has had, and that people can tell. The last part
// but one is run, by which the scope is found where nothing else is known of it.
func ScopeName(job string, generation uint64, run string) string {
	return fmt.Sprintf("bellows-%s-%d-%s-%s", job, generation, run, unique())
}

func unique() string {
	const enough = 6
	return strings.ToLower(rand.Text()[:enough])
}
