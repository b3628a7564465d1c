package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/socketpath"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/yamltext"
)

// The daemons take each setting from the first of these that has it: the command
// line, the environment, a YAML file, the default. A flag is the only place
// where a setting is declared: --gossip-port of the agent is the variable
// BELLOWS_AGENT_GOSSIP_PORT and the key gossip-port.

// ConfigFlag names the file.
const ConfigFlag = "config"

// maxConfigFile bounds a configuration file; one beyond it is something else by mistake.
const maxConfigFile = 1 << 20

// settings is where the flags of a daemon get their values from.
type settings struct {
	role    string // agent or coordinator
	flags   *flags.Set
	origins map[string]string // by flag: what set it; missing = the default
}

// DeclareFile declares the flag that names the file of settings of a role.
func DeclareFile(role string, flags *flags.Set) {
	flags.String(ConfigFlag, "", fmt.Sprintf("YAML file with settings; \"none\" = read none (default: %s, if it is there)", systemConfig(role)))
}

// Sources says where the settings of a role come from.
func Sources(role string) string {
	return fmt.Sprintf(`

Each setting comes from the first that has it: a flag; a variable, as %s for
--data-dir; the file that --config names, with the key data-dir. See also: bellows config.`,
		variableOf(role, "data-dir"))
}

// Fill gives the flags of a role that the command line has left alone their values from
// the environment and the file.
func Fill(role string, flags *flags.Set) error {
	file, err := configOf(role, flags)
	if err != nil {
		return permanent(err)
	}
	return newSettings(role, flags).fill(os.Environ(), file)
}

func newSettings(role string, set *flags.Set) *settings {
	s := &settings{role: role, flags: set, origins: map[string]string{}}
	set.VisitAll(func(f *flags.Flag) {
		if f.Changed {
			s.origins[f.Name] = "command line"
		}
	})
	return s
}

func systemConfig(role string) string { return "/etc/bellows/" + role + ".yaml" }

// variableOf is the environment variable of a daemon's flag.
func variableOf(role, flag string) string {
	return "BELLOWS_" + strings.ToUpper(role+"_"+strings.ReplaceAll(flag, "-", "_"))
}

// IsDaemonVariable reports whether a NAME=value sets something of a daemon.
func IsDaemonVariable(kv string) bool {
	for _, role := range roles {
		if strings.HasPrefix(kv, variableOf(role, "")) {
			return true
		}
	}
	return false
}

// isSetting leaves out what is about one call of the program only.
func isSetting(role string, f *flags.Flag) bool {
	switch f.Name {
	case ConfigFlag, "help":
		return false
	case socketpath.Flag: // which every command has, and a coordinator no use for
		return role == "agent"
	}
	return true
}

func (s *settings) names() []string {
	var names []string
	s.flags.VisitAll(func(f *flags.Flag) {
		if isSetting(s.role, f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// A configFile is a file of settings that has been read.
type configFile struct {
	name string
	text []byte
}

// configOf reads the file that the flags or the environment name, or the
// system's if that is there. One that is named has to be there.
func configOf(role string, flags *flags.Set) (configFile, error) {
	name := flags.Lookup(ConfigFlag).Value.String()
	if name == "" {
		name = os.Getenv(variableOf(role, ConfigFlag))
	}
	switch name {
	case "none":
		return configFile{}, nil
	case "":
		file, err := readConfig(systemConfig(role))
		if errors.Is(err, fs.ErrNotExist) {
			return configFile{}, nil
		}
		return file, err
	}
	return readConfig(name)
}

func readConfig(name string) (configFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return configFile{}, fmt.Errorf("read settings: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return configFile{}, fmt.Errorf("read settings: %w", err)
	}
	if len(text) > maxConfigFile {
		return configFile{}, fault.Usage("%s: a file of settings has at most %d bytes", name, maxConfigFile)
	}
	return configFile{name, text}, nil
}

// fill gives the flags that the command line has left alone their values, and
// says everything that is wrong at once.
func (s *settings) fill(environ []string, file configFile) error {
	faults := s.fromEnvironment(environ)
	faults = append(faults, s.fromFile(file)...)
	if len(faults) > 0 {
		return fault.AsUsage(errors.Join(faults...))
	}
	return nil
}

func (s *settings) fromEnvironment(environ []string) (faults []error) {
	prefix := variableOf(s.role, "")
	known := map[string]string{variableOf(s.role, ConfigFlag): ""}
	for _, name := range s.names() {
		known[variableOf(s.role, name)] = name
	}
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		variable, value, _ := strings.Cut(kv, "=")
		name, ok := known[variable]
		switch {
		case !strings.HasPrefix(variable, prefix), ok && name == "":
		case !ok:
			faults = append(faults, fmt.Errorf("$%s: there is no such setting: see bellows %s --help", variable, s.role))
		case s.origins[name] == "":
			if err := s.set(name, []string{value}, false); err != nil {
				faults = append(faults, fmt.Errorf("$%s: %w", variable, err))
			}
			s.origins[name] = "$" + variable
		}
	}
	return faults
}

func (s *settings) fromFile(file configFile) (faults []error) {
	fault := func(line int, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s:%d: %w", file.name, line, fmt.Errorf(format, args...)))
	}
	doc, err := yamltext.Read(file.text)
	switch {
	case errors.Is(err, yamltext.ErrEmpty):
		return nil
	case errors.Is(err, yamltext.ErrSeveral):
		return []error{fmt.Errorf("%s: %w: write all settings into one", file.name, err)}
	case err != nil:
		return []error{yamltext.Fault(file.name, err)}
	case doc.Kind != yamltext.Map:
		fault(doc.Line, "write keys and values, as in: data-dir: /var/lib/bellows")
		return faults
	}
	names, lines := s.names(), map[string]int{}
	for _, e := range doc.Entries() {
		first, repeated := lines[e.Key]
		lines[e.Key] = cmp.Or(first, e.Line)
		switch {
		case repeated:
			fault(e.Line, "%s is given twice, first in line %d", e.Key, first)
		case !slices.Contains(names, e.Key):
			fault(e.Line, "unknown key %.40q: use %s", e.Key, strings.Join(names, ", "))
		default:
			if err := s.setValue(e.Key, e.Value, s.origins[e.Key] != ""); err != nil {
				fault(e.Value.Line, "%s: %w", e.Key, err)
			} else if s.origins[e.Key] == "" {
				s.origins[e.Key] = fmt.Sprintf("%s:%d", file.name, e.Value.Line)
			}
		}
	}
	return faults
}

// setValue sets a flag to what stands in a file. A flag that is overridden keeps its value, but
// what stands in the file has to be right all the same.
func (s *settings) setValue(name string, v yamltext.Value, overridden bool) error {
	var values []string
	switch v.Kind {
	case yamltext.Text:
		values = []string{v.Text}
	case yamltext.List:
		var err error
		if values, err = v.Texts(); err != nil {
			return err
		}
	case yamltext.Null, yamltext.Map, yamltext.Other:
		return errors.New("use a value, or leave the key out")
	}
	return s.set(name, values, overridden)
}

// set gives a flag one value, or one that is a list all of its values.
func (s *settings) set(name string, values []string, overridden bool) error {
	f := s.flags.Lookup(name)
	list, isList := f.Value.(flags.List)
	if !isList && len(values) != 1 {
		return errors.New("use one value, not a list")
	}
	if overridden && !isList {
		before := f.Value.String()
		defer func() { _ = f.Value.Set(before) }() // it was set to that
	}
	var err error
	switch {
	case !isList:
		err = f.Value.Set(values[0])
	case !overridden && len(values) == 1:
		err = list.Replace(strings.Split(values[0], ","))
	case !overridden:
		err = list.Replace(values)
	}
	if err != nil {
		_ = f.Value.Set(f.DefValue) // what was read in part would look wrong once more
		return fmt.Errorf("%.60q: use a value as for --%s (%s): %s", values[0], name, f.Value.Type(), fault.OfFlag(err))
	}
	f.Changed = true
	return nil
}

// DeclareSocket declares the flag that names the agent's socket.
func DeclareSocket(f *flags.Set) {
	f.String(socketpath.Flag, "", "the agent's socket (default $BELLOWS_SOCKET, else where the agent of this machine or user is)")
}
