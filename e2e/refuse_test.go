package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refusal is a command line that cannot be carried out, and what a person is told.
type refusal struct {
	name string
	args []string
	code int
	says []string // on stderr: the field, the value, the remedy
}

// Whatever cannot be is refused with its field, its value and what would be
// right, before anything is written anywhere.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{})
	work := filepath.Join(f.dir, "work")
	f.makeWork(work)
	checkpoints := filepath.Join(f.dir, "refused")
	run := func(args ...string) []string {
		return append([]string{"run", "--workdir", work, "--checkpoint-dir", checkpoints}, args...)
	}
	before, processes := f.mirror().Revision, f.leftovers()
	var all []refusal
	for _, some := range [][]refusal{numbers(run), names(run), commands(run, work), directories(f.dir), jobFiles(work), questions(f.dir)} {
		all = append(all, some...)
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := f.bellows(c.args...)
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(errs, want) {
					t.Errorf("stderr %q lacks %q", errs, want)
				}
			}
			if out != "" || strings.ContainsRune(errs, '\x1b') || !strings.HasPrefix(errs, "bellows: ") {
				t.Errorf("stdout %q, stderr %q", out, errs)
			}
			for _, dir := range []string{checkpoints, filepath.Join(work, "never")} {
				if _, err := os.Lstat(dir); !os.IsNotExist(err) {
					t.Errorf("the checkpoint directory of a refused job was made: %v", err)
					_ = os.RemoveAll(dir)
				}
			}
		})
	}
	for _, keys := range f.writes(before, f.mirror().Revision) {
		t.Errorf("refusals were written to etcd: %v", keys)
	}
	f.eventually("nothing that refusals have started", func() bool { // agents look at things in processes, also for themselves
		return !slices.ContainsFunc(f.leftovers(), func(pid int) bool { return !slices.Contains(processes, pid) })
	})

	first := f.submit(f.sdkJob("taken", 1, 1, 100000, 0.05))
	_, errs, code := f.bellows(run("--name", "taken", "--", "true")...)
	if want := fmt.Sprintf(`name "taken" is in use by job %s: choose another --name, or stop that job first`, first); code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit %d: %s\nwant %s", code, errs, want)
	}
}

// makeWork makes a folder with scripts that cannot be run.
func (p *place) makeWork(dir string) {
	p.t.Helper()
	open := filepath.Join(dir, "open")
	for _, err := range []error{os.MkdirAll(filepath.Join(dir, "folder"), 0o700), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)} { //nolint:gosec // it is to be refused
		if err != nil {
			p.t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"plain.sh": "#!/bin/sh\n", "noint.sh": "#!/no/such/interpreter\n", "noenv.sh": "#!/usr/bin/env no-such-shell\n",
		"bad.yaml": "name: ../x\nmaximum: 3\nmin: 1\nmin: 2\ncommand: [python3, train.py]\ncheckpoint-dir: never\n",
	} {
		mode := os.FileMode(0o700)
		if name == "plain.sh" {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			p.t.Fatal(err)
		}
	}
}

func numbers(run func(...string) []string) (all []refusal) {
	for _, c := range []struct{ flag, value, says string }{
		{"--min", "0", "--min 0: use 1 or more"},
		{"--min", "-1", "--min -1: use 1 to 65536"},
		{"--min", "2147483648", "--min 2147483648: use 1 to 65536"},
		{"--min", "1.5", `invalid argument "1.5" for "--min" flag: not a whole number`},
		{"--max", "0", "--max 0: use 1 or more"},
		{"--max", "-1", "--max -1: use 1 to 65536"},
		{"--max", "2147483648", "--max 2147483648: use 1 to 65536"},
		{"--max", "99999999999999999999", `invalid argument "99999999999999999999" for "--max" flag`},
		{"--batch-size", "0", `--batch-size "0": use a number of samples from 1`},
		{"--batch-size", "-1", `--batch-size "-1": use a number of samples from 1`},
		{"--batch-size", "99999999999999999999", `--batch-size "99999999999999999999": use a number of samples from 1`},
		{"--batch-size", "64:32", "--batch-size 64:32: the largest is below the smallest; write smallest:largest"},
		{"--steps", "0", "--steps 0: use 1 or more, or leave it out"},
		{"--steps", "-1", "--steps -1: use 1 to 9007199254740992"},
		{"--priority", "101", "--priority 101: use -100 to 100"},
		{"--max-restarts", "-1", "--max-restarts -1: use 0"},
		{"--halt-timeout", "0s", "--halt-timeout 0s: use a time above zero"},
		{"--eta", "-1h", "--eta -1h0m0s: use a time above zero"},
	} {
		all = append(all, refusal{c.flag + " " + c.value, run(c.flag, c.value, "--", "true"), 2, []string{c.says}})
	}
	return append(all,
		refusal{"min above max", run("--min", "8", "--max", "4", "--", "true"), 2, []string{"--min 8 is above --max 4: swap them"}},
		refusal{"no power of two between", run("--min", "3", "--max", "3", "--", "true"), 2, []string{"--min 3, --max 3: no power of two lies between them"}},
		refusal{
			"a batch that no allowed world divides", run("--min", "2", "--max", "8", "--batch-size", "7", "--", "true"), 2,
			[]string{"--batch-size 7 is divided by none of the allowed worker counts", "2,4,8"},
		},
		refusal{
			"all faults at once", run("--name", "-x", "--min", "8", "--max", "4", "--priority", "999", "--", "no-such-program"), 2,
			[]string{`--name "-x"`, "--min 8 is above --max 4", "--priority 999"},
		},
	)
}

func names(run func(...string) []string) []refusal {
	const remedy = "use 1 to 63 letters, digits, '.', '_' or '-', with a letter or digit at both ends"
	of := func(name string) []string { return run("--name", name, "--", "true") }
	return []refusal{
		{"a name that climbs", of("../x"), 2, []string{`--name "../x": ` + remedy}},
		{"an empty name", of(""), 2, []string{"--name is empty: use 1 to 63 letters"}},
		{"a name of 300 bytes", of(strings.Repeat("n", 300)), 2, []string{"--name ", "has 300 bytes", "63"}},
		{"a name of two lines", of("a\nb"), 2, []string{`--name "a\nb": ` + remedy}},
		{"a name with colours", of("\x1b[31mred"), 2, []string{`--name "\x1b[31mred": ` + remedy}},
		{"a name with a NUL's neighbour", of("a\x01b"), 2, []string{`--name "a\x01b": ` + remedy}},
		{"a name in no alphabet", of("a\xffb"), 2, []string{`--name "a\xffb": ` + remedy}},
	}
}

func commands(run func(...string) []string, work string) []refusal {
	return []refusal{
		{"no command", run(), 2, []string{"the command is missing, as in: bellows run -- python train.py"}},
		{"an unknown flag", run("--mini", "2", "--", "true"), 2, []string{"unknown flag: --mini"}},
		{"the script is missing", run("--", python, "train.py"), 2, []string{`script "train.py" does not exist in ` + work + ": correct it, or set --workdir"}},
		{"the program is missing", run("--", "no-such-program"), 2, []string{`command "no-such-program": not found on PATH: install it, or give its full path`}},
		{"the program is not executable", run("--", "./plain.sh"), 2, []string{`command "./plain.sh"`, "plain.sh is not executable: chmod +x it, or name its interpreter"}},
		{"the program is a folder", run("--", "./folder"), 2, []string{`command "./folder"`, "is a folder: give a program"}},
		{"the interpreter is missing", run("--", "./noint.sh"), 2, []string{"its first line asks for the interpreter /no/such/interpreter"}},
		{"env's interpreter is missing", run("--", "./noenv.sh"), 2, []string{"its first line asks for the interpreter no-such-shell: not found on PATH"}},
	}
}

func directories(dir string) []refusal {
	file, open := filepath.Join(dir, "work", "plain.sh"), filepath.Join(dir, "work", "open")
	return []refusal{
		{"a workdir that is not", []string{"run", "--workdir", dir + "/nowhere", "--", "true"}, 2, []string{"--workdir " + dir + "/nowhere: no such file or directory"}},
		{"a workdir that is a file", []string{"run", "--workdir", file, "--", "true"}, 2, []string{"--workdir " + file + ": it is a file, use a folder"}},
		{"a checkpoint directory in /proc", []string{"run", "--checkpoint-dir", "/proc/nope", "--", "true"}, 2, []string{"--checkpoint-dir /proc/nope: cannot be made", "choose another"}},
		{"a checkpoint directory for all", []string{"run", "--checkpoint-dir", open, "--", "true"}, 2, []string{"--checkpoint-dir " + open + ": its mode 0777 lets others than its owner exchange what is in it: chmod go-w "}},
		{"a checkpoint directory below a file", []string{"run", "--checkpoint-dir", file + "/x", "--", "true"}, 2, []string{"--checkpoint-dir " + file + "/x: cannot be made: " + file + ": not a directory; choose another"}},
	}
}

func jobFiles(work string) []refusal {
	file := filepath.Join(work, "bad.yaml")
	return []refusal{
		{"a job file with many faults", []string{"submit", "-f", file}, 2, []string{
			`bad.yaml:1: name "../x": use 1 to 63 letters`,
			`bad.yaml:2: unknown key "maximum": use batch-size, `,
			"bad.yaml:4: min is given twice, first in line 3",
		}},
		{"a job file that is not", []string{"submit", "-f", work + "/none.yaml"}, 2, []string{"open job file " + work + "/none.yaml: no such file or directory"}},
	}
}

func questions(dir string) []refusal {
	absent := filepath.Join(dir, "none.sock")
	remedy := "no agent answers at " + absent + ": start one with 'bellows dev' or set --socket/$BELLOWS_SOCKET"
	all := []refusal{
		{"show of no job", []string{"show", "absent"}, 1, []string{`there is no job "absent": ` + "`bellows ps --all` lists all of them"}},
		{"stop of no job", []string{"stop", "absent"}, 1, []string{`there is no job "absent"`}},
		{"logs of a name that climbs", []string{"logs", "../../etc/passwd"}, 1, []string{`there is no job "../../etc/passwd"`}},
		{"stop of a name with colours", []string{"stop", "\x1b[31mred"}, 1, []string{`there is no job "\x1b[31mred"`}},
	}
	for _, command := range [][]string{{"ps"}, {"nodes"}, {"show", "j"}, {"stop", "j"}, {"logs", "j"}, {"run", "--checkpoint-dir", dir, "--", "true"}} {
		all = append(all, refusal{command[0] + " without an agent", append([]string{command[0], "--socket", absent}, command[1:]...), 3, []string{remedy}})
	}
	return all
}
