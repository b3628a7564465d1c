package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

// Every field of a spec at its bound, alone and all at once: each such job ends, at
// the latest when its owner stops it at once, and gives its devices back. Whatever the
// node says of it is short. Beyond the bound it is refused before anything is recorded.
func TestSpecsAtTheirBoundsEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, config{nodes: 1, devices: 8})
	client := api.NewClient(f.socket(1))
	good := cluster.Spec{
		Command: []string{"/bin/true"}, Workdir: f.dir, CheckpointDir: filepath.Join(f.dir, "c"), MinWorkers: 1, MaxWorkers: 1,
	}
	path := func(bytes int) string { return strings.Repeat("/"+strings.Repeat("p", 200), bytes/201+1)[:bytes] }
	names := map[string]string{}
	for i := range cluster.MaxEnvNames - 1 {
		names[fmt.Sprintf("NAME%04d", i)] = strings.Repeat("v", 40)
	}
	changes := map[string]func(*cluster.Spec){
		"words": func(s *cluster.Spec) { s.Command = slices.Repeat([]string{"/bin/no"}, cluster.MaxCommandWords) },
		"word":  func(s *cluster.Spec) { s.Command = []string{strings.Repeat("w", cluster.MaxCommandBytes)} },
		"arg": func(s *cluster.Spec) {
			s.Command = []string{"/bin/true", strings.Repeat("w", cluster.MaxCommandBytes-9)}
		},
		"workdir": func(s *cluster.Spec) { s.Workdir = path(cluster.MaxPathBytes) },
		"base":    func(s *cluster.Spec) { s.CheckpointDir = path(cluster.MaxPathBytes) },
		"envfile": func(s *cluster.Spec) { s.EnvFile = path(cluster.MaxPathBytes) },
		"path": func(s *cluster.Spec) {
			s.Command, s.Env = []string{"no-such-program"}, map[string]string{"PATH": path(cluster.MaxEnvBytes - 4)}
		},
		"names": func(s *cluster.Spec) { s.Env = names },
		"all": func(s *cluster.Spec) {
			s.Command = slices.Repeat([]string{"1234567"}, cluster.MaxCommandWords)
			s.Workdir, s.CheckpointDir, s.EnvFile, s.Env = path(cluster.MaxPathBytes), path(cluster.MaxPathBytes), path(cluster.MaxPathBytes), names
		},
	}
	submit := func(t *testing.T, spec cluster.Spec) string {
		request := api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec}
		reply, err := client.Submit(t.Context(), request)
		for end := time.Now().Add(patience); err != nil && api.CodeOf(err) != api.Invalid && time.Now().Before(end); {
			reply, err = client.Submit(t.Context(), request) // not answered in time: the same again is the same job
		}
		if err != nil {
			t.Fatalf("%s: %.300v", spec.Name, err)
		}
		return reply.ID
	}
	// They run beside each other, and are looked at in turn: a parallel subtest would
	// wait for its turn among all tests, while this cluster waits for it.
	ids := map[string]string{}
	for name, change := range changes {
		spec := good
		spec.Name = name
		change(&spec)
		ids[name] = submit(t, spec)
	}
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			here := f.in(t)
			s := here.awaitShown(cluster.JobID(id), "ended, or waiting for its owner or a node", func(s api.JobStatus) bool {
				return s.Ended || s.Phase == cluster.Held || s.Phase == cluster.Queued && len(s.Excluded) > 0 || s.Phase == cluster.Backoff
			})
			t.Logf("%s: %.200s", s.Phase, s.Reason)
			if len(s.Reason) > 1<<10 {
				t.Errorf("a reason of %d bytes", len(s.Reason))
			}
			here.mustBellows("stop", "--now", id)
			here.awaitShown(cluster.JobID(id), "ended", func(s api.JobStatus) bool { return s.Ended })
		})
	}
	f.awaitShown(f.submit(f.sdkJob("next", 8, 8, 3, 0.01)), "succeeded", func(s api.JobStatus) bool { return s.Phase == cluster.Succeeded })

	for name, change := range map[string]func(*cluster.Spec){
		"125000 words": func(s *cluster.Spec) {
			s.Command = slices.Repeat([]string{"x"}, 125_000)
			s.Env = map[string]string{"PATH": path(127_000)}
		},
		"300 KB of path": func(s *cluster.Spec) { s.CheckpointDir = path(300_000) },
	} {
		spec := good
		spec.Name = "beyond"
		change(&spec)
		_, err := client.Submit(t.Context(), api.SubmitRequest{RequestID: api.NewRequestID(), Spec: spec})
		if api.CodeOf(err) != api.Invalid || len(err.Error()) > 500 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}
