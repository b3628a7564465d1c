package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// attacker is another of Debian's users without rights; the ordinary user is its victim.
const attacker = 1

// TestAttacks tries what an ordinary account on a node can try, with the real
// program and real users. The numbers are those of the table in docs/security.md,
// which names the tests of the other attacks too: `make attacks` runs them all.
func TestAttacks(t *testing.T) {
	t.Parallel()
	needRoot(t)
	f := newFleet(t, config{devices: 4})
	for _, a := range []struct {
		name string
		try  func(*attack)
	}{
		{"01 submit as another user", (*attack).submitAsAnother},
		{"03 read another's environment", (*attack).readEnvironments},
		{"06 make a job's folder first", (*attack).makeFolderFirst},
		{"11 a script's name for a shell", (*attack).nameForAShell},
		{"12 numbers that are none", (*attack).numbersThatAreNone},
		{"13 a request without end", (*attack).endlessRequests},
		{"16 a checkpoint that was never saved", (*attack).claimCheckpoints},
		{"17 a pickle that runs a program", (*attack).poisonedPickle},
		{"24 leave the cgroup, 25 kill and 26 stop the shim", (*attack).turnOnTheShim},
	} {
		t.Run(a.name, func(t *testing.T) { //nolint:paralleltest // they share a cluster
			a.try(&attack{f.in(t)})
		})
	}
}

// attack is one user's doing in a cluster.
type attack struct{ *fleet }

// asUser runs a program as a user and returns what it says.
func (p *place) asUser(uid uint32, program string, args ...string) (string, error) {
	p.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// post sends a body to the agent's socket as a user, past the program's own checks,
// and returns the whole answer.
func (a *attack) post(uid uint32, path, body string) string {
	a.t.Helper()
	const send = `import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
body = sys.stdin.buffer.read()
head = "POST %s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (sys.argv[2], len(body))
try:
    s.sendall(head.encode() + body)
except OSError:
    pass  # it has heard enough
answer = b""
try:
    while b := s.recv(65536):
        answer += b
except OSError:
    pass
print(answer.decode(errors="replace"))`
	cmd := exec.Command(python, "-c", send, a.socket(1), path)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(body)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		a.t.Fatalf("post to %s: %v: %s", path, err, out)
	}
	return string(out)
}

// shape is a submission with one place to write into.
func (a *attack) shape(name, spec, beside string) string {
	return fmt.Sprintf(`{"request_id":%q,"spec":{"name":%q,"command":["/bin/true"],"workdir":"/","checkpoint_dir":%q,"min_workers":1,"max_workers":1%s}%s}`,
		api.NewRequestID(), name, filepath.Join(a.dir, "attackers"), spec, beside)
}

func (a *attack) mustBeAgreed(answer, name string) {
	a.t.Helper()
	if !strings.HasPrefix(answer, "HTTP/1.1 202 ") {
		a.t.Errorf("%s: %.300s", name, answer)
	}
}

// mustBeRefused demands a refusal, and that no job came of it.
func (a *attack) mustBeRefused(answer, name string) {
	a.t.Helper()
	if !strings.HasPrefix(answer, "HTTP/1.1 4") {
		a.t.Errorf("%s was not refused: %.300s", name, answer)
	}
	for _, id := range a.mirror().JobIDs() {
		if strings.HasPrefix(string(id), name+"-") {
			a.t.Errorf("%s is job %s", name, id)
		}
	}
}

// Who submits is what the kernel says of the connection, and when is what the agent's clock says.
func (a *attack) submitAsAnother() {
	for i, c := range []struct{ spec, beside string }{
		{`,"owner":{"uid":0,"gid":0,"user":"root"}`, ""},
		{"", `,"owner":{"uid":0,"gid":0,"user":"root"}`},
		{`,"uid":0`, ""},
		{"", `,"uid":0`},
		{`,"at":"2096-01-01T00:00:00Z"`, ""},
		{"", `,"at":"2096-01-01T00:00:00Z"`},
		{"", `,"id":"root-aaaaaa"`},
	} {
		name := fmt.Sprintf("another%d", i)
		a.mustBeRefused(a.post(attacker, "/v1/jobs", a.shape(name, c.spec, c.beside)), name)
	}
	a.mustBeAgreed(a.post(attacker, "/v1/jobs", a.shape("own", "", "")), "an honest one")
	a.await("the honest one", func(m *record.Mirror) bool {
		for _, id := range m.JobIDs() {
			if owner := m.Job(id).Spec.Value.Owner; strings.HasPrefix(string(id), "own-") && owner.UID == attacker && owner.User == "daemon" {
				return true
			}
		}
		return false
	})
}

// What a job's environment holds is the owner's: it is in no answer to others, in no
// file that they can read, and in no process of theirs.
func (a *attack) readEnvironments() {
	const secret = "hunter2-and-more"
	s := a.as(ordinary, "run", "-d", "--name", "secretive", "--max", "1", "--env", "TOKEN="+secret, "--checkpoint-dir", a.owned("secretive", ordinary), "--", "sleep", "1000")
	if s.wait() != 0 {
		a.t.Fatal(s.said())
	}
	id := cluster.JobID(strings.TrimSpace(s.out.String()))
	a.awaitPhase(id, cluster.Running)
	worker := a.started(id)[0].PID
	for _, args := range [][]string{
		{"show", string(id)}, {"show", string(id), "-o", "json"}, {"ps", "--all", "-o", "json"}, {"nodes", "-o", "json"}, {"events", "-o", "json"}, {"logs", string(id)},
	} {
		said := a.as(attacker, args...)
		said.wait()
		if strings.Contains(said.said(), secret) {
			a.t.Errorf("%v tells: %s", args, said.said())
		}
	}
	look := fmt.Sprintf(`cat /proc/%d/environ /proc/%d/cmdline; grep -raF %s %s /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -av "grep"; true`,
		worker, worker, "hunter2", a.nodeDir(1))
	if out, _ := a.asUser(attacker, "/bin/sh", "-c", look); strings.Contains(out, secret) {
		a.t.Errorf("it can be found: %.500s", out)
	}
	a.stop(id)
	a.awaitPhase(id, cluster.Stopped)
}

// On a base that is shared as /tmp is, an attacker knows a queued job's name and
// makes its folder before the job does. Then, what lies there would be the
// attacker's to exchange: the job says whose it is and starts only where that is not so.
func (a *attack) makeFolderFirst() {
	base := a.owned("shared", 0)
	if err := os.Chmod(base, 0o777|os.ModeSticky); err != nil { //nolint:gosec // it is what is tried
		a.t.Fatal(err)
	}
	full := a.submit(a.shellJob("full", "trap 'exit 0' TERM\nwhile :; do sleep 0.1; done\n").with("min", 4).with("max", 4))
	a.awaitPhase(full, cluster.Running)
	s := a.as(ordinary, "run", "-d", "--name", "victim", "--max", "1", "--checkpoint-dir", base, "--", "sleep", "1000")
	if s.wait() != 0 {
		a.t.Fatal(s.said())
	}
	id := cluster.JobID(strings.TrimSpace(s.out.String()))
	a.awaitPhase(id, cluster.Queued)
	mine := filepath.Join(base, string(id))
	roots := filepath.Join(a.dir, "roots")
	if err := os.WriteFile(roots, []byte("root's"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	trap := fmt.Sprintf(`umask 0; mkdir -p %s/g00000001/step-5 && echo poison > %s/g00000001/step-5/model && ln -s %s %s/g00000001/.bellows-generation.tmp`, mine, mine, roots, mine)
	if out, err := a.asUser(attacker, "/bin/sh", "-c", trap); err != nil {
		a.t.Fatalf("the trap: %v: %s", err, out)
	}
	a.stop(full)
	status := a.awaitShown(id, "whose folder it is", func(s api.JobStatus) bool { return strings.Contains(s.Reason, "checkpoint_dir") })
	for _, want := range []string{mine + " belongs to daemon (uid 1)", "not to the job's owner, " + ordinaryName + " (uid 65534)", "have it removed"} {
		if !strings.Contains(status.Reason, want) {
			a.t.Errorf("the reason %q lacks %q", status.Reason, want)
		}
	}
	if a.mirror().Job(id).Committed.Exists() || len(a.workers(id)) > 0 {
		a.t.Error("it runs, or has committed something")
	}
	if b, err := os.ReadFile(roots); err != nil || string(b) != "root's" {
		a.t.Errorf("what the link leads to is written over: %q, %v", b, err)
	}
	a.stop(id)
	a.awaitPhase(id, cluster.Stopped)
}

// with sets a key of a job file.
func (j job) with(key string, value any) job {
	j[key] = value
	return j
}

// Programs are executed and never spelt out to a shell.
func (a *attack) nameForAShell() {
	dir := a.owned("names", attacker)
	var ids []cluster.JobID
	for i, name := range []string{"; touch pwned #.sh", "$(touch pwned).sh", "`touch pwned`.sh", "-rf *.sh", "two words.sh", "%00\x1b[31m.sh"} {
		script := filepath.Join(dir, name)
		if err := os.WriteFile(script, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil { //nolint:gosec // it is to be run
			a.t.Fatal(err)
		}
		s := a.as(attacker, "run", "-d", "--name", fmt.Sprintf("names%d", i), "--max", "1", "--workdir", dir, "--checkpoint-dir", dir, "--", script)
		if code := s.wait(); code != 0 || strings.Contains(s.said(), "\x1b[31m") {
			a.t.Errorf("%q: exit %d: %q", name, code, s.said())
		}
		ids = append(ids, cluster.JobID(strings.TrimSpace(s.out.String())))
	}
	for _, id := range ids {
		a.awaitPhase(id, cluster.Succeeded)
	}
	for _, place := range []string{dir, "/", a.dir, a.nodeDir(1)} {
		if _, err := os.Stat(filepath.Join(place, "pwned")); err == nil {
			a.t.Errorf("a shell has run a script's name in %s", place)
		}
	}
}

func (a *attack) numbersThatAreNone() {
	for i, spec := range []string{
		`,"min_workers":0.5`, `,"min_workers":NaN`, `,"min_workers":-1`, `,"max_workers":2147483648`, `,"max_workers":9223372036854775808`, `,"max_workers":1e400`,
		`,"min_workers":3,"max_workers":3`, `,"min_workers":2`, `,"batch_size":{"min":-1,"max":1}`, `,"priority":1000`, `,"max_restarts":-1`, `,"steps":-5`,
		`,"halt_timeout":"-1s"`, `,"nonsense":1`, `,"name":"../x"`, `,"name":"x\u0000y"`, `,"workdir":"relative"`, `,"command":[]`, `,"command":["a\u0000b"]`,
	} {
		name := fmt.Sprintf("numbers%d", i)
		a.mustBeRefused(a.post(attacker, "/v1/jobs", a.shape(name, spec, "")), name)
	}
}

// Requests have a bound, and one that is nested without end costs as little.
func (a *attack) endlessRequests() {
	const mib = 1 << 20
	before := a.rss("agent-n1")
	for name, body := range map[string]string{
		"large":  a.shape("large", `,"env":{"A":"`+strings.Repeat("x", 10*mib)+`"}`, ""),
		"deep":   `{"request_id":` + strings.Repeat(`[`, 100_000),
		"deeper": strings.Repeat(`{"spec":`, 100_000),
	} {
		a.mustBeRefused(a.post(attacker, "/v1/jobs", body), name)
	}
	if after := a.rss("agent-n1"); after-before > 100*mib {
		a.t.Errorf("the agent had %d MiB and has %d", before/mib, after/mib)
	}
	if _, errs, code := a.bellows("ps"); code != 0 {
		a.t.Errorf("it does not answer any more: %s", errs)
	}
}

// What a job says of its saves is tried, and never believed.
func (a *attack) claimCheckpoints() {
	dir := a.owned("claims", attacker)
	script := filepath.Join(dir, "claim.py")
	const text = `import json, os, signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["BELLOWS_WORKER_SOCKET"])
here = os.environ["BELLOWS_CHECKPOINT_DIR"]
s.sendall((json.dumps({"hello": {"version": 1, "rank": 0, "pid": os.getpid()}}) + "\n").encode())
s.recv(4096)
def say(step, directory):
    s.sendall((json.dumps({"saved": {"step": step, "samples": 1, "dir": directory}}) + "\n").encode())
say(9, here + "/step-000000000009")
time.sleep(3)
print("claimed", flush=True)
for step, directory in enumerate([here + "/../../other", "/etc", here, "relative", here + "/a/../../.."], 10):
    try:
        say(step, directory)
    except OSError:
        break
while True:
    time.sleep(0.1)
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil { //nolint:gosec // it is to be run
		a.t.Fatal(err)
	}
	s := a.as(attacker, "run", "-d", "--name", "claims", "--max", "1", "--workdir", dir, "--checkpoint-dir", dir, "--", python, script)
	if s.wait() != 0 {
		a.t.Fatal(s.said())
	}
	id := cluster.JobID(strings.TrimSpace(s.out.String()))
	status := a.awaitShown(id, "that nothing is there", func(s api.JobStatus) bool { return len(s.Problems) > 0 })
	if text := status.Problems[0].Text; !strings.Contains(text, "step 9") {
		a.t.Errorf("problem %q", text)
	}
	if a.mirror().Job(id).Committed.Exists() {
		a.t.Errorf("committed: %+v", a.mirror().Job(id).Committed.Value)
	}
	a.bellows("stop", "--now", string(id)) // it would not stop by the protocol that it lies in
	a.awaitPhase(id, cluster.Stopped)
	if a.mirror().Job(id).Committed.Exists() {
		a.t.Errorf("committed at the end: %+v", a.mirror().Job(id).Committed.Value)
	}
}

// Files of a checkpoint are digested, verified, listed and deleted, and never interpreted.
func (a *attack) poisonedPickle() {
	proof := filepath.Join(a.dir, "unpickled")
	text := fmt.Sprintf(`trap 'exit 0' TERM
cd "$BELLOWS_CHECKPOINT_DIR" && mkdir -p step-5
printf 'cposix\nsystem\n(S"touch %s"\ntR.' > step-5/model.pt
cp step-5/model.pt step-5/data.pkl && touch step-5/COMPLETE
while :; do sleep 0.1; done
`, proof)
	id := a.submit(a.shellJob("poison", text))
	a.await("a checkpoint", func(m *record.Mirror) bool { return m.Job(id).Committed.Value.Step == 5 })
	a.stop(id)
	a.awaitPhase(id, cluster.Stopped)
	if plan := a.resume(id); plan.Resume == nil || plan.Resume.Step != 5 {
		a.t.Errorf("resumed from %+v", plan.Resume)
	}
	a.awaitPhase(id, cluster.Running)
	a.stop(id)
	a.awaitPhase(id, cluster.Stopped)
	if _, err := os.Stat(proof); err == nil {
		a.t.Error("it was unpickled")
	}
}

// A job can reach neither the process that holds it, nor the agent, nor the kernel's
// handles on itself.
func (a *attack) turnOnTheShim() {
	dir := a.owned("turncoat", attacker)
	script := filepath.Join(dir, "turn.sh")
	const text = `#!/bin/bash
hole() { echo "HOLE $*"; }
ours=
for file in $(grep -laF "$2/" /proc/[0-9]*/cmdline 2>/dev/null); do
	[ "$(stat -c %u "${file%/cmdline}" 2>/dev/null)" = 0 ] && file=${file#/proc/} && ours="$ours ${file%/cmdline}"
done
echo "trying $PPID, $1 and$ours"
for pid in $PPID $1 $ours; do
	for signal in STOP KILL TERM CONT; do kill -$signal $pid 2>/dev/null && hole $signal $pid; done
	for file in environ mem maps fd/0 root/.; do head -c1 /proc/$pid/$file >/dev/null 2>&1 && hole read $pid $file; done
done
find /sys/fs/cgroup \( -name cgroup.procs -o -name tasks -o -name freezer.state -o -name cgroup.kill -o -name pids.max -o -name memory.max \) 2>/dev/null |
	while read -r file; do { echo $$ > "$file"; } 2>/dev/null && hole "$file"; done
mkdir /sys/fs/cgroup/mine /sys/fs/cgroup/*/mine 2>/dev/null && hole mkdir
run=$(dirname "$BELLOWS_WORKER_SOCKET")
for file in "$run"/* ; do [ -w "$file" ] && [ "$file" != "$BELLOWS_WORKER_SOCKET" ] && hole write "$file"; done
ls "$run" >/dev/null 2>&1 && hole list "$run"
for name in order.json report.json shim.json shim.log control.sock; do
	[ -r "$run/$name" ] && hole read "$name"
	[ -w "$run/$name" ] && hole write "$name"
	rm -f "$run/$name" 2>/dev/null; mv "$run/$name" /tmp 2>/dev/null && hole move "$name"
done
ln -s /etc/passwd "$run/x" 2>/dev/null && hole link
echo tried
`
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil { //nolint:gosec // it is to be run
		a.t.Fatal(err)
	}
	agent := a.procs["agent-n1"].cmd.Process.Pid
	s := a.as(attacker, "run", "--name", "turncoat", "--max", "1", "--workdir", dir, "--checkpoint-dir", dir, "--", script, fmt.Sprint(agent), a.dir)
	if code := s.wait(); code != 0 || !strings.Contains(s.said(), "tried") || strings.Contains(s.said(), "HOLE") {
		a.t.Errorf("exit %d: %s", code, s.said())
	}
	a.t.Log(s.said())
}
