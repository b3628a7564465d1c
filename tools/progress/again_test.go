package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// What fails once and then passes three times alone is reported, and fails nothing. All else stays failed.
func TestFailedTestsAreRepeated(t *testing.T) {
	passes := func(step, failure, io.Writer) error { return nil }
	fails := func(step, failure, io.Writer) error { return errors.New("exit status 1") }
	one := []event{
		{Action: "run", Test: "TestA"},
		{Action: "output", Test: "TestA", Output: "    a_test.go:7: 2, want 3\n"},
		{Action: "fail", Test: "TestA"},
		{Action: "fail"},
	}
	said := func(line string) []event {
		return append([]event{{Action: "run", Test: "TestA"}, {Action: "output", Test: "TestA", Output: line}}, one[1:]...)
	}
	var many []event
	for i := range mostUnsteady + 1 {
		name := fmt.Sprintf("TestA%d", i)
		many = append(many, event{Action: "run", Test: name}, event{Action: "fail", Test: name})
	}
	tests := []struct {
		name   string
		events []event
		alone  func(step, failure, io.Writer) error
		asked  int
		failed bool
		says   string
	}{
		{"passes alone", one, passes, 1, false, "UNSTEADY e2e TestA\n    a_test.go:7: 2, want 3\n1 passed, 0 failed, 0 skipped in 0s; of those that passed, 1 failed at first\n"},
		{"fails alone", one, fails, 1, true, "FAIL e2e TestA\n    a_test.go:7: 2, want 3\n0 passed, 1 failed, 0 skipped in 0s\n"},
		{"a race in the test", said("WARNING: DATA RACE\n"), passes, 0, true, "0 passed, 1 failed"},
		{"a race that go found when the test had ended", said("    testing.go:1: race detected during execution of test\n"), passes, 0, true, "0 passed, 1 failed"},
		{"a panic", said("panic: nil map\n"), passes, 0, true, "0 passed, 1 failed"},
		{"a race in a process that a test started", append([]event{{Action: "output", Output: "WARNING: DATA RACE\n"}}, one...), passes, 0, true, "0 passed, 1 failed"},
		{"a test that does not end", append([]event{{Action: "run", Test: "TestB"}}, one...), passes, 0, true, "0 passed, 2 failed"},
		{"too many", many, passes, 0, true, "0 passed, 4 failed"},
		{"no test has failed", []event{{Action: "fail"}}, passes, 0, true, "0 passed, 1 failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out, time.Second, time.Time{})
			for _, e := range test.events {
				e.Package = module + "e2e"
				r.add(e)
			}
			asked := 0
			exit := errors.New("exit status 1")
			err := step{}.repeat(r, exit, func(s step, f failure, w io.Writer) error {
				asked++
				return test.alone(s, f, w)
			})
			r.summary(time.Time{})
			if (err != nil) != test.failed || asked != test.asked || !strings.Contains(out.String(), test.says) {
				t.Errorf("error %v, %d repeated, want %v, %d and %q in\n%s", err, asked, test.failed, test.asked, test.says, &out)
			}
		})
	}
}

// One that passes alone does not excuse another that does not, nor what an earlier step said.
func TestEachFailureIsRepeated(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, time.Second, time.Time{})
	earlier, last := r.forStep(step{}, &out), r.forStep(step{}, &out)
	earlier.add(event{Action: "fail", Package: module + "allocator", Test: "TestEarlier"})
	last.add(event{Action: "fail", Package: module + "e2e", Test: "TestA"})
	last.add(event{Action: "fail", Package: module + "e2e", Test: "TestB"})
	err := step{}.repeat(last, errors.New("exit status 1"), func(_ step, f failure, _ io.Writer) error {
		if f.what == "e2e TestB" {
			return errors.New("exit status 1")
		}
		return nil
	})
	r.take(earlier)
	r.take(last)
	r.summary(time.Time{})
	if want := "UNSTEADY e2e TestA\nFAIL allocator TestEarlier\nFAIL e2e TestB\n1 passed, 2 failed"; err == nil || !strings.Contains(out.String(), want) {
		t.Errorf("error %v, want %q in\n%s", err, want, &out)
	}
}

// Only steps that a shared machine can disturb repeat, and never the soak, which looks for what is unsteady.
func TestWhichStepsRepeat(t *testing.T) {
	for name, steps := range tiers() {
		for _, s := range steps {
			if processes := name == "test" && s.args[0] == "test" && !s.spare; s.repeats != processes {
				t.Errorf("%s, %s: repeats is %v", name, s.what, s.repeats)
			}
		}
	}
}
