package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
)

// The user of the page, whom no machine has to begin with.
const pageUser, pageUID = "ada", 4711

// Two bare machines, each with a systemd and an address of its own, and one shared
// folder. What docs/install.md tells people to type is typed, as it stands there,
// and two jobs are rescaled across them; and what is no part of the page but happens to
// those who follow it: Debian gives the host's name the address 127.0.1.1, by which no
// worker is to be met.
func TestTheInstallPage(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	if !ownNetwork(t) {
		return
	}
	f := emptyFleet(t, config{nodes: 2})
	f.connectHosts()
	p := f.bareMachines()
	page := p.blocks()
	for _, b := range page[:4] {
		p.enter(b)
	}
	p.await("first on both machines", "first", func(j api.JobStatus) bool { return on(j, "n1", "n2") && j.Workers == 4 })
	p.enter(page[4])
	p.await("second", "second", func(j api.JobStatus) bool { return j.Workers == 2 })
	p.await("first with half of its workers", "first", func(j api.JobStatus) bool { return j.Workers == 2 })
	if out := p.user("n2", "bellows logs --rank 0 --tail 1 first"); !strings.Contains(out, "step ") {
		t.Errorf("on n2 the log of first is %q", out)
	}
	p.user("n1", "bellows stop --wait second")
	p.await("first with all workers again", "first", func(j api.JobStatus) bool { return on(j, "n1", "n2") && j.Workers == 4 })
	p.root("n2", "bellows drain n2")
	last := p.await("first on n1 alone", "first", func(j api.JobStatus) bool { return on(j, "n1") && j.Workers == 2 })
	for _, r := range last.Rescales[1:] {
		if r.ResumeStep <= 0 || r.LostSteps > 0 { // -1: this script does not say how far it has come
			t.Errorf("a planned change to generation %d: from step %d, %d steps lost", r.Generation, r.ResumeStep, r.LostSteps)
		}
	}
	p.user("n1", "bellows stop --wait first")
	p.root("n1", "bellows undrain n2")

	// All four workers at once: they do not meet where the hosts' names point.
	p.user("n2", "cd /srv/train; bellows run --name torch --min 4 --max 4 --batch-size 64 --env OMP_NUM_THREADS=1 -- "+
		python+" pytorch_ddp.py --steps 40 --samples 1024")
	if j := p.show("torch"); j.Restarts != 0 || !slices.ContainsFunc(j.Rescales, func(r api.Rescale) bool { return r.To == 4 }) {
		t.Errorf("torch: %+v", j)
	}
}

// paged are the machines on which the page is followed, by name.
type paged struct {
	f        *fleet
	machines map[string]*machine
	inbox    string // what scp sends to n2
}

// bareMachines are n1 and n2 with the program, a shared folder and a user.
func (f *fleet) bareMachines() paged {
	f.t.Helper()
	shared, inbox := f.owned("train", pageUID), filepath.Join(f.dir, "inbox")
	if err := os.Mkdir(inbox, 0o700); err != nil {
		f.t.Fatal(err)
	}
	install, err := filepath.Abs("../scripts/install")
	if err != nil {
		f.t.Fatal(err)
	}
	p := paged{f, map[string]*machine{}, inbox}
	for i := range f.config.nodes {
		name := string(node(i + 1))
		m := f.bootHost(i + 1)
		p.machines[name] = m
		f.t.Cleanup(func() {
			if f.t.Failed() {
				out, _ := m.try("journalctl", "--no-pager", "-o", "cat", "-u", "bellows-*")
				f.t.Logf("%s: %s", name, out)
			}
		})
		p.root(name, fmt.Sprintf(`
hostname %[1]s
printf '127.0.0.1 localhost\n127.0.1.1 %[1]s.lab %[1]s\n' >/etc/hosts
useradd --create-home --uid %[2]d %[3]s
mkdir -p /srv/train /usr/share/doc/bellows
mount --bind %[4]s /srv/train
cp -r %[5]s /usr/share/doc/bellows/examples
sed -i 's/^ *vector, loss = gradient/        time.sleep(0.02)\n&/' /usr/share/doc/bellows/examples/plain.py # its workers would keep all processors busy
grep -q '^        time.sleep(0.02)$' /usr/share/doc/bellows/examples/plain.py
%[6]s --binary %[7]s
echo BELLOWS_AGENT_SIMULATE_DEVICES=2 >/etc/bellows/agent.env
echo BELLOWS_COORDINATOR_INTERVAL=2s >/etc/bellows/coordinator.env
printf '#!/bin/bash\n[ "$1" != -r ] || shift\nto=%[8]s${2#*:}\nmkdir -p "$(dirname "$to")"\ncp -r "$1" "$to"\n' >/usr/local/bin/scp
chmod +x /usr/local/bin/scp
`, name, pageUID, pageUser, shared, filepath.Dir(example(f.t, "plain.py")), install, binary, inbox))
	}
	return p
}

// block is what the page has people type, and where.
type block struct {
	on     []string
	asRoot bool
	script string
}

// blocks reads the page, with this fleet's addresses.
func (p paged) blocks() (all []block) {
	p.f.t.Helper()
	text, err := os.ReadFile("../docs/install.md")
	if err != nil {
		p.f.t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "10.0.0.", strings.TrimSuffix(p.f.addr(1), "1"))
	for _, m := range regexp.MustCompile("(?s)```sh\n# on ([^\n]*), as (root|a user)\n(.*?)```").FindAllStringSubmatch(page, -1) {
		all = append(all, block{strings.Split(m[1], " and "), m[2] == "root", m[3]})
	}
	if len(all) != 5 {
		p.f.t.Fatalf("the page has %d blocks that say where they are typed, not 5", len(all))
	}
	return all
}

// enter types a block. What is typed on both machines is written for n1.
func (p paged) enter(b block) {
	p.f.t.Helper()
	second := strings.NewReplacer("node: n1", "node: n2", "bind: "+p.f.addr(1), "bind: "+p.f.addr(2))
	for i, name := range b.on {
		script := b.script
		if i > 0 {
			script = second.Replace(script)
		}
		if b.asRoot {
			p.root(name, script)
		} else {
			p.user(name, script)
		}
	}
	p.root("n2", "cp -r "+p.inbox+"/. / && rm -rf "+p.inbox+"/*")
}

func (p paged) root(name, script string) string {
	p.f.t.Helper()
	return p.machines[name].run("env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"bash", "-eu", "-o", "pipefail", "-c", script)
}

func (p paged) user(name, script string) string {
	p.f.t.Helper()
	return p.machines[name].run("env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "/usr/sbin/runuser", "-u", pageUser, "--", "bash", "-eu", "-o", "pipefail", "-c", script)
}

// show is what n2 knows of a job.
func (p paged) show(name string) (j api.JobStatus) {
	p.f.t.Helper()
	if err := json.Unmarshal([]byte(p.user("n2", "bellows show -o json "+name)), &j); err != nil {
		p.f.t.Fatal(err)
	}
	return j
}

func (p paged) await(what, name string, want func(api.JobStatus) bool) api.JobStatus {
	p.f.t.Helper()
	var j api.JobStatus
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if j = p.show(name); j.Phase == "running" && want(j) {
			return j
		}
		if time.Now().After(deadline) {
			p.f.t.Fatalf("waited in vain for %s: %+v", what, j)
		}
	}
}

// on reports whether exactly these nodes have a job's workers.
func on(j api.JobStatus, nodes ...string) bool {
	var have []string
	for _, m := range j.Members {
		have = append(have, m.Node)
	}
	slices.Sort(have)
	return slices.Equal(have, nodes)
}
