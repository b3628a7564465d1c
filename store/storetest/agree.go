package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// Agree runs the same random transactions on both subjects and demands the same
// outcomes, listings and changes of them, revisions counted from where each began.
func Agree(t *testing.T, a, b Subject, seed uint64) {
	const transactions = 300
	random := rand.New(rand.NewPCG(seed, 0))
	prefix := fmt.Sprintf("x%d/", seed)
	baseA, baseB := now(t, a), now(t, b)
	for i := range transactions {
		kvs, _, err := a.Range(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		txn := randomTxn(random, prefix, kvs)
		outA := a.Commit(t.Context(), txn)
		outB := b.Commit(t.Context(), shifted(txn, baseB-baseA))
		outA.Revision -= baseA
		outB.Revision -= baseB
		// In a conflict there is no revision to count from.
		if outA.Result != outB.Result || outA.Result == record.Applied && outA.Revision != outB.Revision || (outA.Err == nil) != (outB.Err == nil) {
			t.Fatalf("seed %d, transaction %d, %+v:\n%+v\n%+v", seed, i, txn, outA, outB)
		}
	}
	kvsA, atA, errA := a.Range(t.Context(), prefix)
	kvsB, atB, errB := b.Range(t.Context(), prefix)
	if errA != nil || errB != nil || atA-baseA != atB-baseB || list(kvsA, baseA) != list(kvsB, baseB) {
		t.Fatalf("seed %d, listings at +%d and +%d, %v, %v:\n%s\n%s", seed, atA-baseA, atB-baseB, errA, errB, list(kvsA, baseA), list(kvsB, baseB))
	}
	changesA, errA := a.Await(t.Context(), 1, baseA+1, prefix)
	if errA != nil {
		t.Fatal(errA)
	}
	changesB, errB := b.Await(t.Context(), len(changesA), baseB+1, prefix)
	if errB != nil || show(changesA, baseA) != show(changesB, baseB) {
		t.Fatalf("seed %d, changes, %v:\n%s\n%s", seed, errB, show(changesA, baseA), show(changesB, baseB))
	}
}

// randomTxn compares what is there, rightly in most cases, and writes among twelve keys in three directories.
func randomTxn(random *rand.Rand, prefix string, kvs []record.KV) record.Txn {
	key := func() string { return fmt.Sprintf("%s%d/%d", prefix, random.IntN(3), random.IntN(4)) }
	txn := record.Txn{ID: "random"}
	for range random.IntN(3) {
		k := key()
		var found record.KV
		for _, kv := range kvs {
			if kv.Key == k {
				found = kv
			}
		}
		switch random.IntN(8) {
		case 0:
			txn.If = append(txn.If, record.Absent(k))
		case 1, 2, 3:
			txn.If = append(txn.If, record.Unchanged(k, found.ModRevision))
		case 4:
			txn.If = append(txn.If, record.SameLife(k, found.CreateRevision))
		case 5:
			txn.If = append(txn.If, record.SameLife(k, found.ModRevision))
		case 6, 7:
			if found.ModRevision > 0 { // else revisions cannot be shifted
				from := found.ModRevision + random.Int64N(3) - 1
				txn.If = append(txn.If, record.Within(k, from, from+1+random.Int64N(3))...)
			}
		}
	}
	for range 1 + random.IntN(4) {
		switch random.IntN(8) {
		case 0:
			txn.Then = append(txn.Then, record.DeletePrefix(fmt.Sprintf("%s%d/", prefix, random.IntN(3))))
		case 1, 2:
			txn.Then = append(txn.Then, record.Delete(key()))
		default:
			txn.Then = append(txn.Then, put(key(), fmt.Sprint(random.IntN(100))))
		}
	}
	return txn
}

// shifted moves a transaction's revisions to another subject's count. 0 means absent everywhere.
func shifted(t record.Txn, by int64) record.Txn {
	compares := make([]record.Compare, len(t.If))
	for i, c := range t.If {
		if c.Revision != 0 {
			c.Revision += by
		}
		compares[i] = c
	}
	t.If = compares
	return t
}
