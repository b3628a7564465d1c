package record_test

import (
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// Each key is read as what wrote it meant.
func TestLocate(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]record.Place{
		record.MetaKey:                                  {Kind: record.KindMeta},
		record.AllocationKey:                            {Kind: record.KindDecision},
		record.GrantedKey:                               {Kind: record.KindGranted},
		record.PromisedKey:                              {Kind: record.KindPromised},
		record.PausedKey:                                {Kind: record.KindPaused},
		record.LimitsKey:                                {Kind: record.KindLimits},
		record.LeaderPrefix + "3f":                      {Kind: record.KindLeader, Name: record.LeaderPrefix + "3f"},
		record.EventKey(7):                              {Kind: record.KindEvent, Slot: 7},
		record.AliveKey("n"):                            {Kind: record.KindAlive, Node: "n"},
		record.InventoryKey("n"):                        {Kind: record.KindInventory, Node: "n"},
		record.FencingKey("n"):                          {Kind: record.KindFencing, Node: "n"},
		record.CordonKey("n"):                           {Kind: record.KindCordon, Node: "n"},
		record.ProgressKey("n"):                         {Kind: record.KindProgress, Node: "n"},
		record.AskedKey("n"):                            {Kind: record.KindAsked, Node: "n"},
		record.NodeEventKey("n", 3):                     {Kind: record.KindNodeEvent, Node: "n", Slot: 3},
		record.GrantKey("n", "j"):                       {Kind: record.KindGrant, Node: "n", Job: "j"},
		record.NextKey("n", "j"):                        {Kind: record.KindNext, Node: "n", Job: "j"},
		record.ReadyKey("n", "j"):                       {Kind: record.KindReady, Node: "n", Job: "j"},
		record.RequestKey("n", "r"):                     {Kind: record.KindRequest, Node: "n", Name: "r"},
		record.AckKey("n", "j", 2, "held"):              {Kind: record.KindAck, Node: "n", Job: "j", Generation: 2, Name: "held"},
		record.SavedKey("n", "j", 2, 100):               {Kind: record.KindSaved, Node: "n", Job: "j", Generation: 2, Step: 100},
		record.OfferKey("n", "j", 2, 100):               {Kind: record.KindOffer, Node: "n", Job: "j", Generation: 2, Step: 100},
		record.SpecKey("j"):                             {Kind: record.KindSpec, Job: "j"},
		record.WantedKey("j"):                           {Kind: record.KindWanted, Job: "j"},
		record.StateKey("j"):                            {Kind: record.KindState, Job: "j"},
		record.PlanKey("j", 2):                          {Kind: record.KindPlan, Job: "j", Generation: 2},
		record.PermitKey("j", 2):                        {Kind: record.KindPermit, Job: "j", Generation: 2},
		record.HaltKey("j", 2):                          {Kind: record.KindHalt, Job: "j", Generation: 2},
		record.FenceKey("j", 2, "n"):                    {Kind: record.KindFence, Job: "j", Generation: 2, Node: "n"},
		record.RescaleKey("j", 2):                       {Kind: record.KindRescale, Job: "j", Generation: 2},
		record.SpeedKey("j"):                            {Kind: record.KindSpeed, Job: "j"},
		record.JobKindKey(7, "k"):                       {Kind: record.KindJobKind, UID: 7, Name: "k"},
		record.KindsPrefix + "07/k":                     {},
		record.KindsPrefix + "7/-k":                     {},
		record.KindsPrefix + "4294967296/k":             {},
		record.CommittedKey("j"):                        {Kind: record.KindCommitted, Job: "j"},
		record.CheckpointKey("j", 100):                  {Kind: record.KindCheckpoint, Job: "j", Step: 100},
		record.BadCheckpointKey("j", 100):               {Kind: record.KindBadCheckpoint, Job: "j", Step: 100},
		record.StateKey("j") + "s":                      {Job: "j"},
		record.JobPrefix("j") + "gen/2/plan":            {Job: "j"}, // not as generations are written
		record.NodePrefix("n") + "ack/j/00000002/heard": {Node: "n"},
		record.EventsPrefix + "seven":                   {},
		record.JobsPrefix + "/state":                    {},
		record.JobsPrefix + "j":                         {},
		"/elsewhere":                                    {},
		"":                                              {},
	} {
		if got := record.Locate(key); got != want {
			t.Errorf("%q: %+v, want %+v", key, got, want)
		}
	}
}

// What is known of a subtree is found by its prefix, and not below others.
func TestKnown(t *testing.T) {
	t.Parallel()
	k := record.Known{}
	for i, key := range []string{record.StateKey("a"), record.PlanKey("a", 1), record.HaltKey("a", 2), record.StateKey("b"), record.FenceKey("a", 1, "n"), record.AliveKey("n")} {
		k.Take(record.Change{KV: record.KV{Key: key, ModRevision: int64(i + 1)}})
	}
	if got := k.Below(record.GenerationPrefix("a", 1)); len(got) != 2 || got[0] != record.FenceKey("a", 1, "n") || got[1] != record.PlanKey("a", 1) {
		t.Errorf("below a generation: %q", got)
	}
	if got := k.Below(record.JobPrefix("a")); len(got) != 4 {
		t.Errorf("below a job: %q", got)
	}
	k.Take(record.Change{KV: record.KV{Key: record.StateKey("b"), ModRevision: 3}, Deleted: true}) // older than what is known
	if k.Revision(record.StateKey("b")) != 4 {
		t.Errorf("revision %d", k.Revision(record.StateKey("b")))
	}
	k.Take(record.Change{KV: record.KV{Key: record.StateKey("b"), ModRevision: 5}, Deleted: true})
	if k.Revision(record.StateKey("b")) != 0 || len(k.Until(6)) != 5 || len(k.Until(2)) != 2 {
		t.Errorf("after a deletion: %v", k)
	}
}
