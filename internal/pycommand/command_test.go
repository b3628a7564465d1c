package pycommand_test

import (
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/internal/pycommand"
)

func TestCommandsThatRunPython(t *testing.T) {
	for line, want := range map[string]string{
		"python x.py a b":                   "python|x.py|false|a b",
		"/opt/env/bin/python3.12 -u x.py":   "/opt/env/bin/python3.12 -u|x.py|false|",
		"python -Wignore -X dev -m pkg.a c": "python -Wignore -X dev|pkg.a|true|c",
		"python -W ignore x.py -m y":        "python -W ignore|x.py|false|-m y",
		"env A=1 B=2 python3 x.py":          "env A=1 B=2 python3|x.py|false|",
		"/usr/bin/env python3 ./x.py":       "/usr/bin/env python3|./x.py|false|",
		"python":                            "cold", "python -c pass": "cold", "python -": "cold", "python -I x.py": "cold", "python -uE x.py": "cold",
		"python -m": "cold", "bash x.sh": "cold", "env -i python x.py": "cold", "pythonic x.py": "cold", "python --version": "cold", "python -i x.py": "cold", "./train": "cold", "env": "cold",
	} {
		c := pycommand.Parse(strings.Fields(line))
		got := strings.Join(c.Head, " ") + "|" + c.Script + "|" + map[bool]string{true: "true", false: "false"}[c.IsModule] + "|" + strings.Join(c.Args, " ")
		if c.Cold != "" {
			got = "cold"
		}
		if got != want {
			t.Errorf("%s: %s (%s), want %s", line, got, c.Cold, want)
		}
	}
	for line, want := range map[string]string{"#!/usr/bin/env python3\nx": "/usr/bin/env|python3", "#! /bin/py -u \n": "/bin/py|-u", "import x\n": "", "#!/x": ""} {
		if got := strings.Join(pycommand.ParseShebang([]byte(line)), "|"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
