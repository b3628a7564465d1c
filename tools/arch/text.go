package arch

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// machinePath matches folders that exist on one developer's machine and nowhere
// else, at the start of an absolute path. It is spelt so as not to match itself.
var machinePath = regexp.MustCompile(`(^|[^\w.\-/$}])(/[w]ork/|/[U]sers/|/home/\w+/(go|src|bellows)/|[A-Z]:\\[U]sers\\)`)

// CheckMachinePaths finds absolute paths of a developer's machine in any file,
// whatever its language.
func CheckMachinePaths(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if bytes.IndexByte(f.Src, 0) >= 0 {
			continue // not text
		}
		for i, line := range bytes.Split(f.Src, []byte("\n")) {
			if m := machinePath.FindSubmatch(line); m != nil {
				found = append(found, Finding{
					File: f.Path, Line: i + 1, Rule: "machine path",
					Problem: fmt.Sprintf("%s exists on one machine only", m[2]),
					Remedy:  "make it relative to the repository, or a flag",
				})
			}
		}
	}
	return found
}

var shellShebang = regexp.MustCompile(`^#!.*\b(ba|da|z)?sh\s*$`)

// CheckScripts demands of every shell script that it is bash and that its
// first command makes errors stop it.
func CheckScripts(t *Tree) []Finding {
	const strict = "set -euo pipefail"
	var found []Finding
	for _, f := range t.Files {
		if strings.Contains("/"+f.Path, "/testdata/") {
			continue
		}
		lines := strings.Split(string(f.Src), "\n")
		if !shellShebang.MatchString(lines[0]) && !strings.HasSuffix(f.Path, ".sh") {
			continue
		}
		breach := func(line int, problem, remedy string) {
			found = append(found, Finding{File: f.Path, Line: line, Rule: "script", Problem: problem, Remedy: remedy})
		}
		if lines[0] != "#!/usr/bin/env bash" && lines[0] != "#!/bin/bash" {
			breach(1, fmt.Sprintf("starts with %q", lines[0]), "start it with #!/usr/bin/env bash")
		}
		if n, first := firstCommand(lines); first != strict {
			breach(n, fmt.Sprintf("the first command is %q", first), "make it "+strict)
		}
	}
	return found
}

// firstCommand returns the first line that is neither empty nor a comment.
func firstCommand(lines []string) (number int, text string) {
	for i, line := range lines {
		if text = strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "#") {
			return i + 1, text
		}
	}
	return 1, ""
}
