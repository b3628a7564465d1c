package systemd

import (
	"fmt"
	"os"
	"syscall"
)

// Priority is how much a line of the journal matters, by syslog's numbers.
type Priority int

// Those that a service needs.
const (
	Error   Priority = 3
	Warning Priority = 4
	Info    Priority = 6
	Debug   Priority = 7
)

// Prefix goes before a line that the service manager reads from a service, which
// takes it off and keeps the line under that priority (sd-daemon(3)).
func (p Priority) Prefix() string { return fmt.Sprintf("<%d>", int(p)) }

// Journal reports whether what is written to f goes to the journal: the service
// manager says so by the file's device and inode, so that a service whose output
// was sent elsewhere is not taken in.
func Journal(f *os.File) bool {
	var s syscall.Stat_t
	if syscall.Fstat(int(f.Fd()), &s) != nil {
		return false
	}
	return os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
