package shim

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setThreadGroups sets the supplementary groups of the calling thread alone; the
// library's Setgroups would change every thread. groups is not empty.
func setThreadGroups(groups []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	if errno != 0 {
		return fmt.Errorf("set groups: %w", errno)
	}
	return nil
}
