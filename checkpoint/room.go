package checkpoint

import "fmt"

// Room is the free space of a file system, for the user that asked.
type Room struct {
	// Known is false where a file system does not say: then there is taken to be enough.
	Known     bool  `json:"known"`
	FreeBytes int64 `json:"free_bytes"`
	// NoFiles: not one more file can be made, however much is free.
	NoFiles bool `json:"no_files,omitempty"`
}

// Needed is how many bytes have to be free before a save, given the size of the
// one before: 1.2 times that. Models hardly grow, but logs and other jobs share the disk.
func Needed(lastBytes int64) int64 { return lastBytes + lastBytes/5 }

// Shortage says why another checkpoint may not fit into dir, a file system's
// directory, and what helps; "" if it fits.
func (r Room) Shortage(dir string, lastBytes int64) string {
	switch need := Needed(lastBytes); {
	case !r.Known:
		return ""
	case r.NoFiles:
		return fmt.Sprintf("checkpoint dir %s: its file system has no room for another file: delete files there", dir)
	case r.FreeBytes < need:
		return fmt.Sprintf("checkpoint dir %s: %s are free, the next checkpoint needs %s (1.2 times the last one): make room there",
			dir, megabytes(r.FreeBytes), megabytes(need))
	}
	return ""
}

// megabytes rounds so that 0 means 0.
func megabytes(n int64) string {
	const unit = 1 << 20
	return fmt.Sprintf("%.1f MiB", float64(n)/unit)
}
