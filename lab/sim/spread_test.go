package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/lab/trace"
)

func rigid(id string, submit, work time.Duration, workers int) Job {
	j := elastic(id, submit, work, workers)
	j.MinWorkers = workers
	return j
}

// fragmented leaves two devices free on each of two nodes of four when c comes, which wants four.
func fragmented() Config {
	return Config{
		Jobs: []Job{
			rigid("a", 0, 100000*s, 2), rigid("f", 1*s, 300*s, 2), rigid("b", 2*s, 100000*s, 2), rigid("g", 3*s, 300*s, 2),
			rigid("c", 2000*s, 20000*s, 4),
		},
		Nodes: 2, DevicesPerNode: 4, Interval: 300 * s, RescaleCost: 30 * s, Layout: Layout{SpanLoss: 0.5},
	}
}

// A job of four is in two halves for as long as it runs, or one of two moves for it.
func TestAJobMovesForAnother(t *testing.T) {
	ends := map[int]time.Duration{}
	for _, migrations := range []int{0, 1} {
		cfg := fragmented()
		cfg.Policy, cfg.Migrations = byName(t, "share"), migrations
		r, log := run(t, cfg)
		sum := r.Summary()
		ends[migrations] = r.Jobs[4].End
		if r.Migrations != migrations || (*sum.Placement.Apart == 0) != (migrations > 0) || *sum.BestFit.Apart == 0 {
			t.Errorf("with %d migrations %d jobs move, %.3f of device time is apart, %.3f by best fit\n%s",
				migrations, r.Migrations, *sum.Placement.Apart, *sum.BestFit.Apart, strings.Join(log, "\n"))
		}
		if got := sum.MigrationsPerHour * sum.MakespanS / 3600; math.Abs(got-float64(migrations)) > 1e-9 {
			t.Errorf("%v migrations in all, want %d", got, migrations)
		}
	}
	// 20,000 s of work: at the speed of four on one node it takes as long again as at half that speed.
	if whole, half := ends[1]-2000*s, ends[0]-2000*s; half < 19*whole/10 {
		t.Errorf("on one node it takes %v, on two %v, want twice as long but for its start", whole, half)
	}
}

// One job on one of four devices for all of the time: of the three that are idle one is beside it.
func TestFragmentationIsOfIdleDevices(t *testing.T) {
	r, _ := run(t, Config{Jobs: []Job{rigid("a", 0, 100*s, 1)}, Nodes: 2, DevicesPerNode: 2, Policy: byName(t, "share"), Interval: 300 * s})
	if got := *r.Placed.Fragmentation; math.Abs(got-1.0/3) > 1e-9 || r.Placed.Apart != nil {
		t.Errorf("fragmentation %v, apart %v, want a third, and none with several workers", got, r.Placed.Apart)
	}
	r, _ = run(t, Config{Jobs: []Job{rigid("a", 0, 100*s, 1)}, Nodes: 2, DevicesPerNode: 1, Policy: byName(t, "share"), Interval: 300 * s})
	if r.Placed.Fragmentation != nil {
		t.Errorf("nodes of one device are fragmented by %v", *r.Placed.Fragmentation)
	}
}

// Jobs of two come and go on a node of two pairs. Best fit takes the first free devices, which are of
// two pairs once a job of one has ended; aligned blocks are of one.
func TestBestFitIgnoresGroups(t *testing.T) {
	groups, err := cluster.ParseDeviceGroups("0-1,2-3")
	if err != nil {
		t.Fatal(err)
	}
	r, log := run(t, Config{
		Jobs:  []Job{rigid("x", 0, 100*s, 1), rigid("y", 1*s, 5000*s, 1), rigid("p", 1000*s, 1600*s, 2)},
		Nodes: 1, DevicesPerNode: 4, Policy: byName(t, "share"), Interval: 300 * s, Layout: Layout{Groups: groups, NodesPerRack: 1},
	})
	if *r.Placed.ApartInGroups != 0 || *r.BestFit.ApartInGroups != 1 || *r.BestFit.Apart != 0 {
		t.Errorf("apart in groups %v, by best fit %v and %v of nodes\n%s", *r.Placed.ApartInGroups, *r.BestFit.ApartInGroups, *r.BestFit.Apart, strings.Join(log, "\n"))
	}
}

func TestBestFit(t *testing.T) {
	for _, c := range []struct {
		taken string // by node, x = taken
		k     int
		want  []spot
	}{
		{"..../xx..", 2, []spot{{1, 2}, {1, 3}}},
		{"..../xx..", 4, []spot{{0, 0}, {0, 1}, {0, 2}, {0, 3}}},
		{"x.../xx..", 4, []spot{{0, 1}, {0, 2}, {0, 3}, {1, 2}}},
		{"x.x./xxxx", 2, []spot{{0, 1}, {0, 3}}},
		{"xx../x.../xxx.", 6, []spot{{1, 1}, {1, 2}, {1, 3}, {0, 2}, {0, 3}, {2, 3}}},
		{"..../xxx./xx..", 5, []spot{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 3}}},
	} {
		nodes := strings.Split(c.taken, "/")
		g := newGround(Config{Nodes: len(nodes), DevicesPerNode: 4})
		for n, devices := range nodes {
			for d, mark := range devices {
				if mark == 'x' {
					g.mark(spot{n, d}, true)
				}
			}
		}
		if got := g.bestFit(c.k); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d workers are put on %v, want %v", c.taken, c.k, got, c.want)
		}
	}
}

// Whatever comes and goes, both placements hold the same number of devices, and in the end none.
func TestGroundsAgree(t *testing.T) {
	for _, name := range []string{"greedy", "share"} {
		cfg := Config{
			Jobs: crowd(60, 5), Nodes: 3, DevicesPerNode: 4, Policy: byName(t, name), Interval: 60 * s, RescaleCost: 5 * s, Migrations: 1,
			Failures: []Failure{{Node: 1, At: 100 * s, For: 50 * s}},
		}
		w := newWorld(cfg)
		cfg.Check = func() error {
			if w.spread.real.now.idle != w.spread.plain.now.idle {
				t.Errorf("%s: %v devices are idle, by best fit %v", name, w.spread.real.now.idle, w.spread.plain.now.idle)
			}
			return nil
		}
		w.cfg = cfg
		if _, err := w.run(); err != nil {
			t.Fatal(err)
		}
		if g := w.spread.real; g.now.idle != 12 || len(g.worlds) > 0 || g.now.scattered != 0 || g.sum.several == 0 {
			t.Errorf("%s: in the end %+v, over time %+v", name, g.now, g.sum)
		}
	}
}

func TestValidateLayout(t *testing.T) {
	groups, err := cluster.ParseDeviceGroups("0-7")
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"migrations -1":             func(c *Config) { c.Migrations = -1 },
		"span loss 1: ":             func(c *Config) { c.SpanLoss = 1 },
		"names device 7, and there": func(c *Config) { c.Groups = groups },
		"use 0 under rules that": func(c *Config) {
			c.SpanLoss, c.Terms.Pace = 0.1, func(Job, Standing) (float64, error) { return 1, nil }
		},
		"nodes per rack -1: use 0 o": func(c *Config) { c.NodesPerRack = -1 },
	} {
		cfg := Config{Jobs: []Job{{Arrival: trace.Arrival{ID: "a"}, Work: s, MinWorkers: 1, MaxWorkers: 1}}, Nodes: 1, DevicesPerNode: 1, Policy: byName(t, "share")}
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}
