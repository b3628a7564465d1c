package proc

import "golang.org/x/sys/unix"

// May reports whether this process has an effective capability, one of the first 32.
func May(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	return unix.Capget(&header, &has[0]) == nil && has[0].Effective&(1<<capability) != 0
}
