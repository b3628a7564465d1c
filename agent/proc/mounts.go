package proc

import (
	"os"
	"strings"
)

// Mount is one mount that this process sees.
type Mount struct {
	Device  string   // of its file system, major:minor
	Root    string   // the part of the file system that it shows
	Dir     string   // where it is
	Type    string   // of the file system
	Options []string // of the file system
}

// Mounts lists them.
func Mounts() ([]Mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []Mount
	for line := range strings.Lines(string(b)) {
		if m, ok := ReadMount(line); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// ReadMount reads one line of mountinfo:
//
//	41 31 0:38 /root /mount/point rw,relatime - cgroup2 cgroup2 rw
func ReadMount(line string) (m Mount, ok bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields, source := strings.Fields(before), strings.Fields(after)
	if !ok || len(fields) < 5 || len(source) < 3 {
		return Mount{}, false
	}
	// White space and backslashes are written as octal escapes.
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	return Mount{
		Device: fields[2], Root: plain.Replace(fields[3]), Dir: plain.Replace(fields[4]),
		Type: source[0], Options: strings.Split(source[2], ","),
	}, true
}
