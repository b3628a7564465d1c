package jobspec

import (
	"os"
	"strings"

	"github.com/bellows-ml/bellows/internal/fault"
)

// captured reports whether a variable of the submitter's goes with the job, so
// that the job finds the interpreter and the libraries that its submitter has.
// Everything else is left behind: it may be secret, or true of one terminal only.
func captured(name string) bool {
	switch name {
	case "PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME":
		return true
	}
	return strings.HasPrefix(name, "CONDA_")
}

// jobEnvironment is what is captured, with the --env settings over it. NAME
// alone takes the submitter's value.
func jobEnvironment(environ, settings []string) (map[string]string, error) {
	env, own := map[string]string{}, map[string]string{}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		own[k] = v
		if captured(k) {
			env[k] = v
		}
	}
	for _, s := range settings {
		k, v, given := strings.Cut(s, "=")
		if k == "" {
			return nil, fault.Usage("--env %q: the name is missing: write NAME=value, or NAME for the value it has here", s)
		}
		if !given {
			if v, given = own[k]; !given {
				return nil, fault.Usage("--env %q: it is not set here; write %s=value", k, k)
			}
		}
		env[k] = v
	}
	return env, nil
}

// submitterEnvironment is jobEnvironment of this process.
func submitterEnvironment(settings []string) (map[string]string, error) {
	return jobEnvironment(os.Environ(), settings)
}
