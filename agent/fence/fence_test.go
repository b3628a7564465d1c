package fence

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestDeadlineCountsFromTheSending(t *testing.T) {
	const sent = int64(100 * time.Second)
	if got, want := Deadline(sent, TTL, Margin), int64(107500*time.Millisecond); got != want {
		t.Errorf("Deadline = %d, want %d", got, want)
	}
	if got := Deadline(sent, time.Second, Margin); got != sent {
		t.Errorf("a TTL below the margin gives %d, want the sending itself (%d): already over", got, sent)
	}
}

func TestExpired(t *testing.T) {
	for _, c := range []struct {
		now, deadline int64
		want          bool
	}{
		{1, 0, false},
		{1 << 62, 0, false}, // unknown
		{9, 10, false},
		{10, 10, true},
		{11, 10, true},
		{1 << 62, Never, false},
	} {
		if got := Expired(c.now, c.deadline); got != c.want {
			t.Errorf("Expired(%d, %d) = %v, want %v", c.now, c.deadline, got, c.want)
		}
	}
}

func TestOverdue(t *testing.T) {
	for _, c := range []struct {
		now, deadline int64
		want          bool
	}{
		{1, 0, false},
		{1 << 62, 0, false}, // unknown
		{109, 10, false},
		{110, 10, true},
		{1 << 62, Never, false},
		{math.MaxInt64, Never, false},
	} {
		if got := Overdue(c.now, c.deadline, 100); got != c.want {
			t.Errorf("Overdue(%d, %d) = %v, want %v", c.now, c.deadline, got, c.want)
		}
	}
}

// The second witness, too, is in time: a fifth of a second for its look, and one
// for the kill.
func TestTheGraceLeavesTimeToKill(t *testing.T) {
	if left := Margin - Grace; left < time.Second+200*time.Millisecond {
		t.Errorf("%v are left between the agent's kill and the lease's end", left)
	}
}

func TestOnlyOneNodeNeverFencesItself(t *testing.T) {
	for nodes, want := range map[int]bool{0: false, 1: false, 2: true, 100: true} {
		if Strict(nodes) != want {
			t.Errorf("Strict(%d) = %v", nodes, !want)
		}
	}
}

// A network that loses, delays and reorders: whatever happens to the renewals,
// and wherever the connection breaks, the workers are dead before the lease is.
func TestOnNaturalExpiryAllAreDeadBeforeTheLease(t *testing.T) {
	const (
		killTakes = int64(time.Second) // timers, the kill, the processes' own end
		seeds     = 20_000
	)
	for seed := range uint64(seeds) {
		if dead, expiry := lose(rand.New(rand.NewPCG(seed, 7)), Margin); dead+killTakes >= expiry {
			t.Fatalf("seed %d: killed at %v, lease expires at %v", seed, time.Duration(dead), time.Duration(expiry))
		}
	}
}

// A lease that is revoked just after it was renewed ends before the deadline that
// the renewal has set: from then on the leader waits for long enough all the same.
func TestTheWaitCoversALeaseRevokedEarly(t *testing.T) {
	const (
		killTakes = int64(4 * time.Second)
		seeds     = 20_000
	)
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 8))
		sent := rng.Int64N(int64(time.Minute))
		renewed := sent + rng.Int64N(int64(3*time.Second))
		revoked := renewed + rng.Int64N(int64(TTL))
		dead := Deadline(sent, TTL, Margin) + killTakes
		if seen := revoked; dead >= seen+int64(Wait) {
			t.Fatalf("seed %d: revoked at %v, dead at %v, given up at %v", seed,
				time.Duration(revoked), time.Duration(dead), time.Duration(seen+int64(Wait)))
		}
	}
}

// The property above is not empty: a deadline counted from the answer, with no
// margin, breaks it on most seeds.
func TestCountingFromTheAnswerWouldBreakIt(t *testing.T) {
	broken := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		sent := r.Int64N(int64(time.Minute))
		renewed := sent + r.Int64N(int64(time.Second))
		answered := renewed + r.Int64N(int64(time.Second))
		if Deadline(answered, TTL, 0) >= renewed+int64(TTL) {
			broken++
		}
	}
	if broken < 190 {
		t.Errorf("only %d of 200 seeds broke", broken)
	}
}

// lose plays renewals until one is lost for good and returns when the workers
// are told to die and when etcd's lease ends, on one clock.
func lose(r *rand.Rand, margin time.Duration) (deadline, expiry int64) {
	now := int64(time.Minute)
	for range 1 + r.IntN(20) {
		sent := now
		renewed := sent + r.Int64N(int64(3*time.Second))
		expiry = max(expiry, renewed+int64(TTL))
		if r.IntN(4) > 0 { // the answer came: only then may the deadline move
			deadline = Deadline(sent, TTL, margin)
		}
		now = renewed + r.Int64N(int64(RenewEvery))
	}
	return deadline, expiry
}
