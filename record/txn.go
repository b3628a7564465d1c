package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// KV is one key as etcd stores it.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64 // when the key last came into being
	ModRevision    int64 // when it was last written
	Lease          int64 // 0 = none
}

// Change is one step of a watch: the key as written, or its deletion (Value nil, ModRevision = the deletion's).
type Change struct {
	KV
	Deleted bool
}

// Txn is a transaction as a value: if every compare holds, all operations
// happen at one revision; otherwise none does. A key occurs at most once in
// Then. ID is for logs and for matching the Outcome.
type Txn struct {
	ID   string
	If   []Compare
	Then []Op
}

// Field is what a Compare looks at.
type Field uint8

// The fields of a key that a transaction may compare.
const (
	ModRevision    Field = iota + 1 // 0 means: the key is absent
	CreateRevision                  // 0 means: the key is absent
)

// Relation is how a Compare holds a field against its revision.
type Relation uint8

// The relations.
const (
	Equal   Relation = iota // the field is the revision
	AtLeast                 // it is the revision, or a later one
	Before                  // it is an earlier one
)

// Compare demands that a key's field is in Relation to Revision.
type Compare struct {
	Key      string
	Field    Field
	Relation Relation
	Revision int64
}

// Op writes a key, or deletes it (Delete), or deletes all keys that begin with it (Delete and Prefix).
type Op struct {
	Key    string
	Value  []byte
	Lease  int64 // attach to this lease; 0 = none
	Delete bool
	Prefix bool

	record any // what Value was made of; nil = not known
}

// Absent demands that key does not exist.
func Absent(key string) Compare { return Compare{Key: key, Field: CreateRevision} }

// Unchanged demands that key was last written at revision mod (0: absent).
func Unchanged(key string, mod int64) Compare {
	return Compare{Key: key, Field: ModRevision, Revision: mod}
}

// Within demands that key was last written at revision from or later, and before
// revision end. An absent key was written at 0.
func Within(key string, from, end int64) []Compare {
	return []Compare{
		{Key: key, Field: ModRevision, Relation: AtLeast, Revision: from},
		{Key: key, Field: ModRevision, Relation: Before, Revision: end},
	}
}

// SameLife demands that key came into being at revision create and has existed since.
func SameLife(key string, create int64) Compare {
	return Compare{Key: key, Field: CreateRevision, Revision: create}
}

// Put writes v as JSON, its texts for people cut to MaxReason. Records are this
// package's own types, which always marshal; anything else is a programming error
// and panics.
func Put(key string, v any) Op {
	v = cutWords(v, MaxReason)
	b, err := json.Marshal(v)
	if err != nil {
		panic("record: put " + key + ": " + err.Error())
	}
	return Op{Key: key, Value: b, record: v}
}

// PutLeased is Put with the key attached to a lease.
func PutLeased(key string, v any, lease int64) Op {
	op := Put(key, v)
	op.Lease = lease
	return op
}

// Delete removes key; no error if it is absent.
func Delete(key string) Op { return Op{Key: key, Delete: true} }

// DeletePrefix removes every key that begins with prefix.
func DeletePrefix(prefix string) Op { return Op{Key: prefix, Delete: true, Prefix: true} }

// Result says what became of a transaction.
type Result uint8

// The results of a transaction.
const (
	Applied  Result = iota + 1 // every compare held, every operation happened
	Conflict                   // a compare failed, nothing happened
	Unknown                    // no answer: it may or may not have happened; read again
)

// String returns the result's lower-case name.
func (r Result) String() string {
	switch r {
	case Applied:
		return "applied"
	case Conflict:
		return "conflict"
	case Unknown:
		return "unknown"
	}
	return "invalid"
}

// Outcome is what became of the transaction ID; Revision is set when Applied.
type Outcome struct {
	ID       string
	Result   Result
	Revision int64
	// Err says why, where the result alone does not: always of an Unknown, and
	// of a Conflict that no compare explains, because the transaction could not
	// be carried out at all (ErrMalformed, ErrTooLarge, ErrLeaseNotFound, out of space).
	// Nothing happened then, and repeating it at once will not help.
	Err error
}

// What etcd takes in one transaction unless configured otherwise.
const (
	DefaultMaxTxnOps   = 128         // compares, and operations
	DefaultMaxTxnBytes = 3 << 20 / 2 // keys and values, and what each of them takes besides
)

// opOverhead is what an operation or a compare takes beside its key and value, about.
const opOverhead = 16

// Bytes returns about how large an operation is where etcd counts.
func (op Op) Bytes() int { return len(op.Key) + len(op.Value) + opOverhead }

// Bytes returns about how large the transaction is where etcd counts.
func (t Txn) Bytes() int {
	n := 0
	for _, c := range t.If {
		n += len(c.Key) + opOverhead
	}
	for _, op := range t.Then {
		n += op.Bytes()
	}
	return n
}

// Reasons for an Outcome that no compare explains.
var (
	ErrMalformed     = errors.New("malformed transaction")
	ErrLeaseNotFound = errors.New("lease does not exist: it expired or was revoked")
	// ErrTooLarge: it has more bytes, or more operations, than this etcd takes at once.
	ErrTooLarge = errors.New("transaction is larger than etcd takes: raise its --max-request-bytes or --max-txn-ops")
)

// Check reports what makes etcd refuse the transaction whatever it holds: more
// than limit compares or operations, an empty key, or a key written twice
// (a key below a deleted prefix counts as written by that). Every fault is named;
// the error is ErrMalformed.
func (t Txn) Check(limit int) error {
	var faults []error
	if n := max(len(t.If), len(t.Then)); n > limit {
		faults = append(faults, fmt.Errorf("%d compares and %d operations, at most %d of each: raise --max-txn-ops of etcd and of Bellows",
			len(t.If), len(t.Then), limit))
	}
	for _, c := range t.If {
		if c.Key == "" || c.Field != ModRevision && c.Field != CreateRevision || c.Relation > Before {
			faults = append(faults, fmt.Errorf("compare %+v: needs a key, and ModRevision or CreateRevision, in a known relation", c))
		}
	}
	written := make(map[string]bool, len(t.Then))
	for _, op := range t.Then {
		switch {
		case op.Key == "":
			faults = append(faults, errors.New("operation without a key"))
		case op.Prefix && !op.Delete:
			faults = append(faults, fmt.Errorf("put %s: only a deletion takes a prefix", op.Key))
		case written[op.Key]:
			faults = append(faults, fmt.Errorf("key %s is written twice", op.Key))
		}
		written[op.Key] = true
	}
	for i, prefix := range t.Then {
		for j, op := range t.Then {
			if prefix.Prefix && i != j && op.Key != prefix.Key && strings.HasPrefix(op.Key, prefix.Key) {
				faults = append(faults, fmt.Errorf("key %s is written twice: it lies below the deleted prefix %s", op.Key, prefix.Key))
			}
		}
	}
	if faults == nil {
		return nil
	}
	return fmt.Errorf("%w %q: %w", ErrMalformed, t.ID, errors.Join(faults...))
}

// hold reports whether every compare is true of what lookup finds.
func (t Txn) hold(lookup func(key string) KV) bool {
	for _, c := range t.If {
		kv := lookup(c.Key)
		have := kv.ModRevision
		if c.Field == CreateRevision {
			have = kv.CreateRevision
		}
		switch {
		case c.Relation == Equal && have == c.Revision:
		case c.Relation == AtLeast && have >= c.Revision:
		case c.Relation == Before && have < c.Revision:
		default:
			return false
		}
	}
	return true
}

// clone copies what the caller might change later.
func (kv KV) clone() KV {
	kv.Value = bytes.Clone(kv.Value)
	return kv
}

// Small returns the transaction with every text for people cut short and without
// events: what is left when etcd finds it too large (ErrTooLarge), and means the same.
func (t Txn) Small() Txn {
	out := Txn{ID: t.ID, If: t.If}
	for _, op := range t.Then {
		if strings.HasPrefix(op.Key, EventsPrefix) {
			continue
		}
		if w, ok := op.record.(wordy); ok {
			op.Value = Put(op.Key, w.cut(SmallReason)).Value
		}
		out.Then = append(out.Then, op)
	}
	return out
}
