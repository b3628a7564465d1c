package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func fixture(t *testing.T, name string) File {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := Read(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReadEveryFormat(t *testing.T) {
	for _, c := range []struct {
		file   string
		format string
		want   Arrival // the second of the file
		jobs   int
		left   int
	}{
		{"plain.csv", "plain", Arrival{
			ID: "b", Submit: 10500 * time.Millisecond, Workers: 4, Duration: 10 * time.Minute,
			Model: "gpt2", BatchSize: 128, Iterations: 11197, Group: "vc1",
		}, 3, 0},
		{"muri.csv", "muri", Arrival{
			ID: "1", Submit: 1456 * time.Second, Workers: 8, Duration: 926 * time.Second, Model: "resnet18", BatchSize: 128,
			Iterations: 1000, IterationTime: 921500 * time.Microsecond,
		}, 2, 0},
		{"shockwave.csv", "shockwave", Arrival{
			ID: "1", Submit: 55 * time.Second, Workers: 1, Duration: 3338 * time.Second, Model: "ResNet-18", BatchSize: 32,
			Iterations: 1434, Adaptation: "static",
		}, 2, 0},
		{"chronus.csv", "chronus", Arrival{
			ID: "u", Submit: 62 * time.Second, Workers: 2, Duration: 100 * time.Second, Model: "resnet101", Iterations: 8,
			Group: "vc_a", BestEffort: true, Soft: []SoftDeadline{{After: 359 * time.Minute, Value: 10}},
		}, 2, 1},
		{"pai.csv", "pai", Arrival{ID: "pod-1", Submit: 4 * time.Second, Workers: 1, Duration: 124 * time.Second, DeviceMilli: 460}, 2, 0},
	} {
		t.Run(c.format, func(t *testing.T) {
			f := fixture(t, c.file)
			if f.Format != c.format || len(f.Arrivals) != c.jobs || f.LeftOut != c.left {
				t.Fatalf("format %s, %d jobs, %d left out", f.Format, len(f.Arrivals), f.LeftOut)
			}
			got := f.Arrivals[1]
			soft := slices.Equal(got.Soft, c.want.Soft)
			got.Soft, c.want.Soft = nil, nil
			if !soft || !sameArrival(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func sameArrival(a, b Arrival) bool {
	type flat struct {
		id, model, group, adapt   string
		submit, dur, dead, iter   time.Duration
		workers, batch, its, mill int
		best                      bool
	}
	of := func(x Arrival) flat {
		return flat{
			x.ID, x.Model, x.Group, x.Adaptation, x.Submit, x.Duration, x.Deadline, x.IterationTime,
			x.Workers, x.BatchSize, int(x.Iterations), x.DeviceMilli, x.BestEffort,
		}
	}
	return of(a) == of(b)
}

func TestReadGzip(t *testing.T) {
	plain, err := os.ReadFile("testdata/plain.csv")
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err = w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Read("x.csv.gz", bytes.NewReader(z.Bytes()))
	if err != nil || len(f.Arrivals) != 3 {
		t.Errorf("%d jobs, %v", len(f.Arrivals), err)
	}
	if _, err := Read("x.csv.gz", bytes.NewReader(z.Bytes()[:z.Len()-12])); err == nil || !strings.Contains(err.Error(), "x.csv.gz") {
		t.Errorf("a file cut off was read: %v", err)
	}
}

func TestReadWhatSpreadsheetsWrite(t *testing.T) {
	text := "\ufeffjob_id,submit_s,gpus,duration_s,model,batch_size,iterations,deadline_s,vc\r\na,0,1,5,,,,,\r\n"
	f, err := Read("x.csv", strings.NewReader(text))
	if err != nil || len(f.Arrivals) != 1 || f.Arrivals[0].ID != "a" || f.At(f.Arrivals[0]) != "x.csv:2" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestReadRefuses(t *testing.T) {
	const head = "job_id,submit_s,gpus,duration_s,model,batch_size,iterations,deadline_s,vc\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "x.csv: it is empty"},
		{"no job", head, "no job in it"},
		{"columns", "a,b\n1,2\n", `columns "a,b" are those of no known trace`},
		{"column twice", "a,a\n", `x.csv:1: column "a": named twice`},
		{"short line", head + "a,0,1\n", "x.csv:2: 3 cells in a file of 9 columns"},
		{"no id", head + ",0,1,5,,,,,\n", `x.csv:2: job_id "": missing`},
		{"no submit", head + "a,,1,5,,,,,\n", `x.csv:2: submit_s "": missing; fill it in`},
		{"negative submit", head + "a,-3,1,5,,,,,\n", `x.csv:2: submit_s "-3": negative; write 0 or more`},
		{"NaN duration", head + "a,0,1,NaN,,,,,\n", `duration_s "NaN": not a finite number`},
		{"infinite duration", head + "a,0,1,+Inf,,,,,\n", `duration_s "+Inf": not a finite number`},
		{"zero duration", head + "a,0,1,0,,,,,\n", `duration_s "0": zero`},
		{"no duration", head + "a,0,1,,,,,,\n", `duration_s "": missing, and no model`},
		{"milliseconds", head + "a,0,1,1e12,,,,,\n", "write seconds, not milliseconds"},
		{"words", head + "a,0,1,long,,,,,\n", `duration_s "long": not a number`},
		{"no gpus", head + "a,0,,5,,,,,\n", `gpus "": missing`},
		{"zero gpus", head + "a,0,0,5,,,,,\n", `gpus "0": zero`},
		{"half a gpu", head + "a,0,0.5,5,,,,,\n", `gpus "0.5": not a whole number`},
		{"many gpus", head + "a,0,1e6,5,,,,,\n", `gpus "1e6": too many`},
		{"unsorted", head + "a,7,1,5,,,,,\nb,6,1,5,,,,,\n", `x.csv:3: submit_s "6": before the line above it (7); sort the lines`},
		{"twice", head + "a,0,1,5,,,,,\na,1,1,5,,,,,\n", `x.csv:3: job_id "a": line 2 has it already`},
		{"deadline", head + "a,9,1,5,,,,9,\n", `deadline_s "9": not after submit_s 9`},
		{"terminal", head + "a,\x1b[31m,1,5,,,,,\n", `submit_s "\x1b[31m": not a number`},
		{"adaptation", strings.TrimSpace(head) + ",batch_adaptation\na,0,1,5,,,,,,magic\n", `batch_adaptation "magic": unknown`},
		{"muri", strings.TrimSpace(head) + ",iter_time_ms\na,0,1,5,m,1,,,,0\n", `iter_time_ms "0": zero`},
		{"share", strings.TrimSpace(head) + ",gpu_milli,cpu_milli,memory_mib,qos,pod_phase,queue_s\na,0,1,5,,,,,,1001,,,,,\n", `gpu_milli "1001": more than one device`},
		{"ladder", strings.TrimSpace(head) + ",soft_deadlines_rel_min,deadline_values,best_effort,job_type\na,0,1,5,,,,,,60-90,1,0,\n", `deadline_values "1": not as many`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read("x.csv", strings.NewReader(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant …%s…", err, c.want)
			}
		})
	}
}

// A cell that holds no time is one fault, and not another one for its place in the file.
func TestReadNamesEachFaultOnce(t *testing.T) {
	for _, submit := range []string{"", "-5", "NaN", "soon", "1e12"} {
		text := "job_id,submit_s,gpus,duration_s,model,batch_size,iterations,deadline_s,vc\na,7,1,5,,,,,\nb," + submit + ",1,5,,,,,\n"
		_, err := Read("x.csv", strings.NewReader(text))
		if err == nil || strings.Count(err.Error(), "x.csv:3: submit_s") != 1 || strings.Contains(err.Error(), "before the line above") {
			t.Errorf("%q: %v", submit, err)
		}
	}
}

func TestReadReportsAllFaultsUpToABound(t *testing.T) {
	text := "job_id,submit_s,gpus,duration_s,model,batch_size,iterations,deadline_s,vc\n" + strings.Repeat("a,-1,0,NaN,,,,,\n", 5)
	_, err := Read("x.csv", strings.NewReader(text))
	// 4 on the first line, 5 with the id on each of the others, as far as the bound.
	if err == nil || strings.Count(err.Error(), "\n") != maxFaults || !strings.Contains(err.Error(), "x.csv: and 9 more faults") {
		t.Errorf("%v", err)
	}
	var f *Fault
	if !errors.As(err, &f) || f.Line != 2 || f.Field == "" || f.Remedy == "" {
		t.Errorf("no Fault with its place: %+v", f)
	}
}
