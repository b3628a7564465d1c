package record

import "strings"

// A Row is one kind of record: where it lies, who writes it, and what a leader derives from it. By the table of rows keys
// are read (Locate) and a mirror takes records in, and docs/keys.md is held to it.
type Row struct {
	Kind    Kind
	Key     string // below Root; a word such as <node> stands for what varies
	Writer  Writer
	Derived Derived
	set     func(m *Mirror, at Place, c Change) error // takes a change into the mirror
}

// Writer is who writes a record.
type Writer uint8

// The writers of records. Each subtree has one.
const (
	ByAgent     Writer = iota + 1 // of the node below which it lies
	ByLeader                      // the coordinator that leads
	ByCandidate                   // a coordinator, led or not
	ByOperator                    // a command of the cluster's operator
)

// Derived is what a leader derives from a record, and has to derive anew when that changes.
type Derived uint8

// What is derived from records.
const (
	OfNothing Derived = iota // decisions look at the record itself, or not at it
	OfCluster                // what all decisions are made from
	OfJob                    // the view of its job
	OfNode                   // what the node has, and the jobs that have members there
	OfGrant                  // what is free on the node, and the view of the job
	OfNext                   // where nodes are asked to prepare a job
	OfReady                  // where processes of a preparation may exist
)

// Derived returns what a leader derives from records of a kind.
func (k Kind) Derived() Derived { return derived[k] }

// Rows returns the table.
func Rows() []Row { return append([]Row(nil), rows...) }

var rows = []Row{
	{KindMeta, "meta", ByOperator, OfCluster, one(func(m *Mirror) *Versioned[Meta] { return &m.Meta })},
	{KindPaused, "paused", ByOperator, OfCluster, one(func(m *Mirror) *Versioned[Paused] { return &m.Paused })},
	{KindLimits, "limits", ByLeader, OfCluster, one(func(m *Mirror) *Versioned[Limits] { return &m.Limits })},
	{KindLeader, "coordinator/leader/<lease>", ByCandidate, OfCluster, func(m *Mirror, at Place, c Change) error { return setIn(m.Leaders, at.Name, c) }},
	{KindEvent, "events/<slot>", ByLeader, OfNothing, func(m *Mirror, at Place, c Change) error { return setIn(m.Told, at.Slot, c) }},
	{KindJobKind, "kinds/<uid>/<kind>", ByLeader, OfNothing, (*Mirror).setKind},
	{KindDecision, "allocation/last", ByLeader, OfNothing, one(func(m *Mirror) *Versioned[Decision] { return &m.Decision })},
	{KindGranted, "allocation/granted", ByLeader, OfNothing, one(func(m *Mirror) *Versioned[Granted] { return &m.Granted })},
	{KindPromised, "allocation/promised", ByLeader, OfCluster, one(func(m *Mirror) *Versioned[Promises] { return &m.Promised })},

	{KindAlive, "nodes/<node>/alive", ByAgent, OfNode, ofNode(func(v *NodeView) *Versioned[Alive] { return &v.Alive })},
	{KindInventory, "nodes/<node>/inventory", ByAgent, OfNode, ofNode(func(v *NodeView) *Versioned[Inventory] { return &v.Inventory })},
	{KindFencing, "nodes/<node>/fencing", ByAgent, OfNode, ofNode(func(v *NodeView) *Versioned[Fencing] { return &v.Fencing })},
	{KindCordon, "nodes/<node>/cordon", ByLeader, OfNode, ofNode(func(v *NodeView) *Versioned[Cordon] { return &v.Cordon })},
	{KindProgress, "nodes/<node>/progress", ByAgent, OfNothing, ofNode(func(v *NodeView) *Versioned[Progress] { return &v.Progress })},
	{KindAsked, "nodes/<node>/asked", ByAgent, OfNothing, ofNode(func(v *NodeView) *Versioned[Asked] { return &v.Asked })},
	{KindNodeEvent, "nodes/<node>/events/<slot>", ByAgent, OfNothing, func(m *Mirror, at Place, c Change) error { return setIn(m.node(at.Node).Told, at.Slot, c) }},
	{KindGrant, "nodes/<node>/grants/<job>", ByLeader, OfGrant, func(m *Mirror, at Place, c Change) error { return setIn(m.node(at.Node).Grants, at.Job, c) }},
	{KindNext, "nodes/<node>/next/<job>", ByLeader, OfNext, func(m *Mirror, at Place, c Change) error { return setIn(m.node(at.Node).Next, at.Job, c) }},
	{KindReady, "nodes/<node>/ready/<job>", ByAgent, OfReady, func(m *Mirror, at Place, c Change) error { return setIn(m.node(at.Node).Ready, at.Job, c) }},
	{KindRequest, "nodes/<node>/submit/<request>", ByAgent, OfNothing, func(m *Mirror, at Place, c Change) error { return setIn(m.node(at.Node).Requests, at.Name, c) }},
	{KindAck, "nodes/<node>/ack/<job>/<gen>/started", ByAgent, OfJob, ofAcks(func(a *Acks) *Versioned[Started] { return &a.Started })},
	{KindAck, "nodes/<node>/ack/<job>/<gen>/held", ByAgent, OfJob, ofAcks(func(a *Acks) *Versioned[Held] { return &a.Held })},
	{KindAck, "nodes/<node>/ack/<job>/<gen>/failed", ByAgent, OfJob, ofAcks(func(a *Acks) *Versioned[Failed] { return &a.Failed })},
	{KindAck, "nodes/<node>/ack/<job>/<gen>/stopped", ByAgent, OfJob, ofAcks(func(a *Acks) *Versioned[Stopped] { return &a.Stopped })},
	{KindAck, "nodes/<node>/ack/<job>/<gen>/cleared", ByAgent, OfJob, ofAcks(func(a *Acks) *Versioned[Cleared] { return &a.Cleared })},
	{KindSaved, "nodes/<node>/saved/<job>/<gen>/<step>", ByAgent, OfJob, func(m *Mirror, at Place, c Change) error {
		return setIn(inner(m.node(at.Node).Saved, at.jobGen()), at.Step, c)
	}},
	{KindOffer, "nodes/<node>/offer/<job>/<gen>/<step>", ByAgent, OfJob, func(m *Mirror, at Place, c Change) error {
		return setIn(inner(m.node(at.Node).Offers, at.jobGen()), at.Step, c)
	}},

	{KindSpec, "jobs/<job>/spec", ByLeader, OfJob, ofJob(func(v *JobView, _ Place) *Versioned[Submitted] { return &v.Spec })},
	{KindWanted, "jobs/<job>/wanted", ByLeader, OfJob, ofJob(func(v *JobView, _ Place) *Versioned[Wanted] { return &v.Wanted })},
	{KindState, "jobs/<job>/state", ByLeader, OfJob, ofJob(func(v *JobView, _ Place) *Versioned[State] { return &v.State })},
	{KindPlan, "jobs/<job>/gen/<gen>/plan", ByLeader, OfJob, ofJob(func(v *JobView, at Place) *Versioned[Plan] { return &v.generation(at.Generation).Plan })},
	{KindPermit, "jobs/<job>/gen/<gen>/permit", ByLeader, OfJob, ofJob(func(v *JobView, at Place) *Versioned[Permit] { return &v.generation(at.Generation).Permit })},
	{KindHalt, "jobs/<job>/gen/<gen>/halt", ByLeader, OfJob, ofJob(func(v *JobView, at Place) *Versioned[Halt] { return &v.generation(at.Generation).Halt })},
	{KindFence, "jobs/<job>/gen/<gen>/fence/<node>", ByLeader, OfJob, ofJobs(func(v *JobView, at Place, c Change) error {
		return setIn(v.generation(at.Generation).Fences, at.Node, c)
	})},
	{KindCommitted, "jobs/<job>/checkpoint/committed", ByLeader, OfJob, ofJob(func(v *JobView, _ Place) *Versioned[Checkpoint] { return &v.Committed })},
	{KindCheckpoint, "jobs/<job>/checkpoint/history/<step>", ByLeader, OfJob, ofJobs(func(v *JobView, at Place, c Change) error { return setIn(v.Checkpoints, at.Step, c) })},
	{KindBadCheckpoint, "jobs/<job>/checkpoint/bad/<step>", ByLeader, OfJob, ofJobs(func(v *JobView, at Place, c Change) error { return setIn(v.Bad, at.Step, c) })},
	{KindRescale, "jobs/<job>/rescales/<gen>", ByLeader, OfJob, ofJobs(func(v *JobView, at Place, c Change) error { return setIn(v.Rescales, at.Generation, c) })},
	// A speed that cannot be read is not noted: the job goes on without.
	{KindSpeed, "jobs/<job>/speed", ByLeader, OfNothing, func(m *Mirror, at Place, c Change) error { return set(&m.job(at.Job).Speed, c) }},
}

// derived is the column of that name, by kind.
var derived = derive(rows)

func derive(rows []Row) (of [KindBadCheckpoint + 1]Derived) {
	of[KindUnknown] = OfJob // a record of a job that this version does not know may say anything about it
	for _, row := range rows {
		of[row.Kind] = row.Derived
	}
	return of
}

// one takes a record in that there is one of in the cluster.
func one[T any](of func(*Mirror) *Versioned[T]) func(*Mirror, Place, Change) error {
	return func(m *Mirror, _ Place, c Change) error { return set(of(m), c) }
}

// ofNode takes a record in that there is one of below a node.
func ofNode[T any](of func(*NodeView) *Versioned[T]) func(*Mirror, Place, Change) error {
	return func(m *Mirror, at Place, c Change) error { return set(of(m.node(at.Node)), c) }
}

// ofAcks takes an acknowledgement in.
func ofAcks[T any](of func(*Acks) *Versioned[T]) func(*Mirror, Place, Change) error {
	return func(m *Mirror, at Place, c Change) error { return set(of(m.node(at.Node).ack(at.jobGen())), c) }
}

// ofJob takes a record of a job in.
func ofJob[T any](of func(*JobView, Place) *Versioned[T]) func(*Mirror, Place, Change) error {
	return ofJobs(func(v *JobView, at Place, c Change) error { return set(of(v, at), c) })
}

// ofJobs takes a record of a job in, and notes whether it can be read: nothing is decided about a job of which one cannot.
func ofJobs(take func(*JobView, Place, Change) error) func(*Mirror, Place, Change) error {
	return func(m *Mirror, at Place, c Change) error {
		v := m.job(at.Job)
		err := take(v, at, c)
		v.noteUnreadable(c, err)
		return err
	}
}

// branch is what may follow in a key.
type branch struct {
	words map[string]*branch // literally
	any   *branch            // whatever varies here
	what  string             // that is, as <node>
	row   *Row               // of the key that ends here; nil = none does
}

// keyTree is the table as a tree, by the parts of keys.
var keyTree = plant(rows)

func plant(rows []Row) *branch {
	root := &branch{words: map[string]*branch{}}
	for _, row := range rows {
		at := root
		for part := range strings.SplitSeq(row.Key, "/") {
			next := at.words[part]
			if strings.HasPrefix(part, "<") {
				next, at.what = at.any, part
			}
			if next == nil {
				next = &branch{words: map[string]*branch{}}
			}
			if strings.HasPrefix(part, "<") {
				at.any = next
			} else {
				at.words[part] = next
			}
			at = next
		}
		at.row = &row
	}
	return root
}
