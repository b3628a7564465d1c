package jobspec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// checkCommand finds out whether the command can be started from its workdir
// with its own PATH: a spelling mistake should not show
// after hours in the queue.
func checkCommand(spec cluster.Spec) error {
	program, err := lookUp(spec.Command[0], spec.Workdir, spec.Env["PATH"])
	if err == nil {
		err = checkInterpreter(program, spec.Workdir, spec.Env["PATH"])
	}
	if err != nil {
		return fmt.Errorf("command %q: %w", spec.Command[0], err)
	}
	script, _ := scriptOf(spec.Command)
	if script == "" {
		return nil
	}
	f, err := os.Open(under(spec.Workdir, script))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("command: script %q does not exist in %s: correct it, or set --workdir", script, spec.Workdir)
	}
	if err != nil {
		return fmt.Errorf("command: script %q cannot be read: %w", script, fault.Reason(err))
	}
	return f.Close()
}

// lookUp finds a program as the shim will: by its path from workdir, or on path.
func lookUp(program, workdir, path string) (string, error) {
	if strings.Contains(program, "/") {
		full := under(workdir, program)
		return full, executable(full)
	}
	var unfit error
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(under(workdir, dir), program)
		err := executable(full)
		if err == nil {
			return full, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			unfit = err
		}
	}
	if unfit != nil {
		return "", unfit
	}
	if executable(filepath.Join(workdir, program)) == nil {
		return "", fmt.Errorf("not found on PATH: write ./%s for the one in %s", program, workdir)
	}
	return "", fmt.Errorf("not found on PATH: install it, or give its full path")
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	case err != nil:
		return fmt.Errorf("%s: %w", path, fault.Reason(err))
	case info.IsDir():
		return fmt.Errorf("%s is a folder: give a program", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: chmod +x it, or name its interpreter, as in python %s", path, filepath.Base(path))
	}
	return nil
}

// checkInterpreter looks at the #! line of a script.
func checkInterpreter(program, workdir, path string) error {
	f, err := os.Open(program)
	if err != nil {
		// A program may be executable and not readable.
		return nil
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(line, []byte("#!")) {
		return nil // without a whole first line it is no script
	}
	words := strings.Fields(string(line[2:]))
	if len(words) == 0 {
		return nil
	}
	interpreter := words[0]
	if filepath.Base(interpreter) == "env" && len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		interpreter = words[1]
	}
	if _, err := lookUp(interpreter, workdir, path); err != nil {
		return fmt.Errorf("its first line asks for the interpreter %s: %w", interpreter, err)
	}
	return nil
}

// scriptOf returns the script that an interpreter runs, or the module
// after Python's -m; both empty if neither can be told for sure.
func scriptOf(command []string) (script, module string) {
	interpreter := filepath.Base(command[0])
	python := strings.HasPrefix(interpreter, "python") || strings.HasPrefix(interpreter, "pypy")
	if !python && interpreter != "sh" && interpreter != "bash" {
		return "", ""
	}
	for i := 1; i < len(command); i++ {
		arg := command[i]
		switch {
		case arg == "-m" && python && i+1 < len(command):
			return "", command[i+1]
		case arg == "-u" || arg == "-O" || arg == "-B" || arg == "-e":
		case strings.HasPrefix(arg, "-"):
			return "", "" // -c and whatever takes a value
		default:
			return arg, ""
		}
	}
	return "", ""
}
