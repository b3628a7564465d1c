package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Check finds what is missing in an order; all of it at once.
func (o Order) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Version != ProtocolVersion {
		fault("version is %d, this shim understands %d: agent and shim come from one binary", o.Version, ProtocolVersion)
	}
	if m, _, ok := o.World.Member(o.Node); o.Planned() && (!ok || len(m.Devices) == 0) {
		fault("node %q has no devices in the world of %s generation %d", o.Node, o.World.Job, o.World.Generation)
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		fault("command is empty: name the program to run")
	}
	if o.EnvFile != "" && !filepath.IsAbs(o.EnvFile) {
		fault("env_file %q is not an absolute path", o.EnvFile)
	}
	for name, path := range map[string]string{
		"workdir": o.Workdir, "checkpoint_dir": o.Checkpoint, "log_dir": o.LogDir, "lock_dir": o.LockDir,
	} {
		if !filepath.IsAbs(path) && (name != "checkpoint_dir" || o.Planned()) {
			fault("%s %q is not an absolute path", name, path)
		}
	}
	if !slices.Contains([]string{"", Cgroup2, Cgroup1, Weak}, o.Containment) {
		fault("containment %q: use %s, %s or %s, or nothing for the strongest that there is", o.Containment, Cgroup2, Cgroup1, Weak)
	}
	faults = append(faults, CheckEnv(o.Env)...)
	if slices.ContainsFunc(o.Command, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		fault("command %q has a zero byte", o.Command)
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// CheckEnv finds what in an environment cannot be set.
func CheckEnv(env map[string]string) (faults []error) {
	for key, value := range env {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.ContainsRune(value, 0) {
			faults = append(faults, fmt.Errorf("env %q cannot be set: names have no '=', and neither names nor values a zero byte", key))
		}
	}
	return faults
}
