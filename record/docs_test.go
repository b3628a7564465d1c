package record_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/bellows-ml/bellows/record"
)

// docs/keys.md shows every key with a value that this version reads and, apart from order and zero fields, writes.
func TestDocumentedKeys(t *testing.T) {
	page, err := os.ReadFile("../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```etcd\n")
	block, _, ok := strings.Cut(rest, "\n```")
	if !ok {
		t.Fatal("docs/keys.md has no block of examples")
	}
	lines := strings.Split(block, "\n")
	examples := map[string]string{}
	m := mirror(t, nil)
	for i := 0; i+1 < len(lines); i += 2 {
		key, value := lines[i], lines[i+1]
		examples[key] = value
		rev := int64(i + 1)
		if _, err := m.Apply(record.Change{KV: record.KV{Key: key, Value: []byte(value), CreateRevision: rev, ModRevision: rev}}); err != nil {
			t.Error(err)
		}
	}
	for _, e := range exemplars("n1", "train-k3x9qa", 2, 1200) {
		value, shown := examples[e.key]
		if !shown {
			t.Errorf("docs/keys.md shows no %s", e.key)
			continue
		}
		delete(examples, e.key)
		again := reflect.New(reflect.TypeOf(e.value))
		strict := json.NewDecoder(bytes.NewReader([]byte(value)))
		strict.DisallowUnknownFields()
		if err := strict.Decode(again.Interface()); err != nil {
			t.Errorf("docs/keys.md, %s: %v", e.key, err)
		}
		if got := e.shown(m); !reflect.DeepEqual(got, again.Elem().Interface()) || reflect.ValueOf(got).IsZero() {
			t.Errorf("docs/keys.md, %s: a mirror shows %+v", e.key, got)
		}
	}
	for key := range examples {
		t.Errorf("docs/keys.md shows %s, which is no key", key)
	}
	for _, row := range record.Rows() {
		if !bytes.Contains(page, []byte("| `"+row.Key+"` |")) {
			t.Errorf("docs/keys.md has no row for `%s`", row.Key)
		}
		if below := strings.HasPrefix(row.Key, "nodes/<node>/"); row.Writer == record.ByAgent && !below || row.Writer == 0 {
			t.Errorf("%s: its writer is %d, which docs/keys.md says of no such key", row.Key, row.Writer)
		}
	}
}
