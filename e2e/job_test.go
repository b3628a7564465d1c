package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/record"
)

// python is Debian's interpreter, the one that has torch.
const python = "/usr/bin/python3"

// example returns the absolute path of a script in examples/.
func example(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// job is what a test submits: the keys of a job file.
type job map[string]any

// sdkJob trains nothing for steps of worker-seconds, with the module, and traces its samples.
func (s *scripts) sdkJob(name string, smallest, largest, steps int, workerSeconds float64, more ...string) job {
	trace := filepath.Join(s.dir, name+".trace")
	command := []string{
		python, example(s.t, "sdk_minimal.py"), "--steps", fmt.Sprint(steps), "--worker-seconds", fmt.Sprint(workerSeconds), "--trace", trace,
	}
	return job{
		"name": name, "min": smallest, "max": largest, "batch-size": 64, "steps": steps,
		"workdir": s.dir, "checkpoint-dir": filepath.Join(s.dir, "ckpt"), "command": append(command, more...),
	}
}

// submit hands a job file to node n1 and returns the job's identifier.
func (u *people) submit(j job) cluster.JobID {
	u.t.Helper()
	text, err := json.Marshal(j) // JSON is YAML
	if err != nil {
		u.t.Fatal(err)
	}
	file := filepath.Join(u.dir, fmt.Sprintf("%v.yaml", j["name"]))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		u.t.Fatal(err)
	}
	out, errs, code := u.patiently("submit", "-f", file, "-o", "json")
	if code == 1 && strings.Contains(errs, "is in use by job") { // the one that was not answered in time
		return cluster.JobID(u.show(cluster.JobID(fmt.Sprint(j["name"]))).ID)
	}
	var reply api.SubmitReply
	if err := json.Unmarshal([]byte(out), &reply); err != nil || code != 0 {
		u.t.Fatalf("submit exited %d: %s%s", code, out, errs)
	}
	return cluster.JobID(reply.ID)
}

// nodes is what `bellows nodes -o json` prints, asked of n1's agent without starting a process; nil where the agent does not answer.
func (u *people) nodes() []api.NodeStatus {
	u.t.Helper()
	u.caughtUp(1)
	nodes, err := u.client(1).Nodes(u.t.Context())
	if err != nil {
		return nil
	}
	return nodes
}

// awaitNode waits until n1's agent says of a node what is wanted.
func (u *people) awaitNode(id cluster.NodeID, what string, cond func(api.NodeStatus) bool) {
	u.t.Helper()
	u.eventually(fmt.Sprintf("nodes to say of %s: %s", id, what), func() bool {
		return slices.ContainsFunc(u.nodes(), func(n api.NodeStatus) bool { return n.ID == string(id) && cond(n) })
	})
}

// nodesAre demands that nodes lists these and no others.
func (u *people) nodesAre(want ...string) {
	u.t.Helper()
	var got []string
	for _, n := range u.nodes() {
		got = append(got, n.ID)
	}
	if !slices.Equal(got, want) {
		u.t.Errorf("nodes lists %v, want %v", got, want)
	}
}

// show is what `bellows show JOB -o json` prints, asked of n1's agent without starting a process.
// It asks again while the agent does not answer in time, as on a busy machine.
func (u *people) show(id cluster.JobID) api.JobStatus {
	u.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Second) {
		u.caughtUp(1)
		s, err := u.client(1).Job(u.t.Context(), string(id))
		unanswered := errors.Is(err, api.ErrNoAgent) || api.CodeOf(err) == api.Unavailable
		if err == nil {
			return s
		}
		if !unanswered || time.Now().After(end) {
			u.t.Fatalf("ask for job %s: %v", id, err)
		}
	}
}

// awaitShown waits until `bellows show` says what is wanted.
func (u *people) awaitShown(id cluster.JobID, what string, want func(api.JobStatus) bool) api.JobStatus {
	u.t.Helper()
	var s api.JobStatus
	defer func() {
		if u.t.Failed() {
			u.t.Logf("job %s showed %+v", id, s)
		}
	}()
	u.eventually(fmt.Sprintf("job %s to show %s", id, what), func() bool {
		s = u.show(id)
		return want(s)
	})
	return s
}

// awaitPhase waits until the job is in one of the phases.
func (r *records) awaitPhase(id cluster.JobID, phases ...cluster.Phase) record.State {
	r.t.Helper()
	m := r.await(fmt.Sprintf("job %s to be %v", id, phases), func(m *record.Mirror) bool {
		return slices.Contains(phases, m.Job(id).State.Value.Phase)
	})
	return m.Job(id).State.Value
}

// traceLine is one line of sdk_minimal.py's trace.
type traceLine struct {
	Step       int   `json:"step"`
	Rank       int   `json:"rank"`
	WorldSize  int   `json:"world_size"`
	Generation int   `json:"generation"`
	Samples    []int `json:"samples"`
}

// trace reads a file that ranks append to, from where it stopped the last time.
type trace struct {
	path   string
	offset int64
	lines  []traceLine
}

// read returns all lines that are complete by now.
func (r *trace) read(t testing.TB) []traceLine {
	t.Helper()
	file, err := os.Open(r.path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, r.offset, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break
		}
		var l traceLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("trace %s: %v", r.path, err)
		}
		r.lines = append(r.lines, l)
		r.offset += int64(len(line))
	}
	return r.lines
}

// trace returns the named job's trace so far.
func (s *scripts) trace(name string) []traceLine {
	s.t.Helper()
	if s.traces[name] == nil {
		s.traces[name] = &trace{path: filepath.Join(s.dir, name+".trace")}
	}
	return s.traces[name].read(s.t)
}

// await a line of the named job's trace.
func (s *scripts) awaitLine(name, what string, want func(traceLine) bool) traceLine {
	s.t.Helper()
	for deadline, next := time.Now().Add(patience), 0; ; time.Sleep(20 * time.Millisecond) {
		lines := s.trace(name)
		for ; next < len(lines); next++ {
			if want(lines[next]) {
				return lines[next]
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("job %s: %s: not within %s\n%s", name, what, patience, describe(s.mirror()))
		}
	}
}

// awaitStep waits until a step after another has been taken with the world size (0 = any), and returns it.
func (s *scripts) awaitStep(name string, after, world int) int {
	s.t.Helper()
	return s.awaitLine(name, fmt.Sprintf("a step after %d with %d workers", after, world), func(l traceLine) bool {
		return l.Step > after && (world == 0 || l.WorldSize == world)
	}).Step
}

// lastStep returns the highest step that any rank has begun, -1 if none was.
func (s *scripts) lastStep(name string) int {
	last := -1
	for _, l := range s.trace(name) {
		last = max(last, l.Step)
	}
	return last
}

// batches returns, for each step, the samples of its global batch, in rank
// order, as the last generation that took the step saw them. It fails the test
// if a step is missing or was taken by fewer ranks than its world has.
func batches(t *testing.T, lines []traceLine) [][]int {
	t.Helper()
	type key struct{ generation, rank int }
	steps := map[int]map[key]traceLine{}
	for _, l := range lines {
		if steps[l.Step] == nil {
			steps[l.Step] = map[key]traceLine{}
		}
		steps[l.Step][key{l.Generation, l.Rank}] = l
	}
	var all [][]int
	for step := range len(steps) {
		takes, ok := steps[step]
		if !ok {
			t.Fatalf("step %d was never taken", step)
		}
		last := 0
		for k := range maps.Keys(takes) {
			last = max(last, k.generation)
		}
		var batch []int
		for rank := 0; ; rank++ {
			l, ok := takes[key{last, rank}]
			if !ok {
				break
			}
			batch = append(batch, l.Samples...)
			if rank >= l.WorldSize {
				t.Fatalf("step %d: rank %d in a world of %d", step, rank, l.WorldSize)
			}
		}
		all = append(all, batch)
	}
	return all
}

// takes counts how often each step was begun by rank 0.
func takes(lines []traceLine) map[int]int {
	n := map[int]int{}
	for _, l := range lines {
		if l.Rank == 0 {
			n[l.Step]++
		}
	}
	return n
}
