package cluster

import (
	"errors"
	"fmt"
	"strings"
)

// MaxEnvFileBytes bounds a Spec's EnvFile.
const MaxEnvFileBytes = 256 << 10

// ParseEnvFile reads the lines NAME=VALUE of a Spec's EnvFile. Values are taken as
// they stand, to the end of the line, quotes included. Empty lines and those that
// begin with # are left out. All faults come at once, each with its line, and none
// of them repeats a value.
func ParseEnvFile(text string) (map[string]string, error) {
	env := map[string]string{}
	var faults []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		_, repeated := env[name]
		switch {
		case !ok || name == "" || strings.ContainsAny(name, " \t\x00") || hasNUL(value):
			faults = append(faults, fmt.Errorf("line %d: use NAME=VALUE, without spaces before the '=' and without NUL bytes", number))
		case reservedName(name) != "":
			faults = append(faults, fmt.Errorf("line %d: %s: %s", number, name, reservedName(name)))
		case repeated:
			faults = append(faults, fmt.Errorf("line %d: %s is given twice", number, name))
		default:
			env[name] = value
		}
	}
	return env, errors.Join(faults...)
}
