package cluster

import (
	"fmt"
	"strings"
)

// NodeID names one machine with one agent, unique in the cluster.
type NodeID string

// DeviceID is a device's NVML UUID ("GPU-…", "SIM-…" when simulated). Never an index: those move.
type DeviceID string

// JobID names one accepted submission for ever: "<name>-<suffix>". Names can be
// used again once their job has ended; identifiers cannot.
type JobID string

// Generation counts how often a job's worker group has been formed. The first
// world of a job is generation 1; 0 means "never formed". It fences everything
// that an older world may still try to do.
type Generation uint64

// MaxNameBytes bounds job and node names, so that they fit in file names,
// gossip metadata and host names alike.
const MaxNameBytes = 63

// CheckName reports what is wrong with a job or node name: 1–63 bytes of
// a–z A–Z 0–9 . _ -, beginning and ending with a letter or digit. The
// narrow alphabet keeps names safe in paths, etcd keys, terminals and shells.
func CheckName(name string) error { return checkWord("name", name) }

// checkWord is CheckName for what is called otherwise.
func checkWord(what, name string) error {
	const rule = "use 1 to 63 letters, digits, '.', '_' or '-', with a letter or digit at both ends"
	switch {
	case name == "":
		return fmt.Errorf("%s is empty: %s", what, rule)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%s %.20q… has %d bytes: %s", what, name, len(name), rule)
	case !alphanumeric(name[0]) || !alphanumeric(name[len(name)-1]):
		return fmt.Errorf("%s %q: %s", what, name, rule)
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%s %q: %s", what, name, rule)
		}
	}
	if strings.Contains(name, "..") {
		return fmt.Errorf("%s %q: %s, and no '..'", what, name, rule)
	}
	return nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
