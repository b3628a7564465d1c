package ask

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/socketpath"
	"github.com/bellows-ml/bellows/internal/fault"
)

// Agent makes the client for the agent at a socket. It says so once if what the agent
// knows is old.
func Agent(path string) *api.Client {
	client := api.NewClient(path)
	var once sync.Once
	client.Silence = func(d time.Duration) {
		once.Do(func() {
			fmt.Fprintf(os.Stderr, "etcd has not answered this node for %v: this is what it knew then\n", d.Round(time.Second))
		})
	}
	return client
}

// Find returns the socket that was chosen, else the first place where
// there is one, else where this user's would be.
func Find(chosen string) string {
	if chosen != "" {
		return chosen
	}
	own := socketpath.Own()
	for _, path := range []string{socketpath.System, own} {
		if _, err := os.Stat(path); err == nil && (path == socketpath.System || socketpath.Trusted(filepath.Dir(path)) == nil) {
			return path
		}
	}
	if installed(socketpath.Unit) {
		return socketpath.System // it is down
	}
	return own
}

// installed reports whether this machine has a unit of systemd's.
func installed(unit string) bool {
	return slices.ContainsFunc([]string{"/etc/systemd/system", "/usr/lib/systemd/system"}, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, unit))
		return err == nil
	})
}

// Explain adds the remedy to the error of a call.
func Explain(err error, socket string) error {
	if errors.Is(err, api.ErrNoAgent) && !errors.Is(err, syscall.EACCES) {
		if socket == socketpath.System {
			return fault.WithRemedy(err, fmt.Sprintf("no agent answers at %s: 'systemctl start %s' as root starts it; 'journalctl -u %s' says what keeps it", socket, socketpath.Unit, socketpath.Unit))
		}
		return fault.WithRemedy(err, fmt.Sprintf("no agent answers at %s: start one with 'bellows dev' or set --socket/$%s", socket, socketpath.Variable))
	}
	return err
}
