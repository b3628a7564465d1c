package systemd

import (
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Ready tells the service manager that the service is up; without one, nothing happens.
func Ready() error { return notify(daemon.SdNotifyReady) }

// Alive feeds the service manager's watchdog, which ends and restarts a service
// that does not for longer than its unit's WatchdogSec.
func Alive() error { return notify(daemon.SdNotifyWatchdog) }

func notify(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	return nil
}
