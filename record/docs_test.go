package record_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
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
		if want := writer(t, page, row.Key); row.Writer != want {
			t.Errorf("%s: its writer is %d, docs/keys.md says %d", row.Key, row.Writer, want)
		}
	}
}

// writer finds who writes a key in the page's table of writers: the row that names most of the key's beginning.
func writer(t *testing.T, page []byte, key string) (who record.Writer) {
	t.Helper()
	longest := 0
	for name, by := range map[string]record.Writer{
		"an agent": record.ByAgent, "the leader": record.ByLeader, "a candidate": record.ByCandidate, "the cluster's operator": record.ByOperator,
	} {
		row := regexp.MustCompile(`(?m)^\| ` + name + ` \|.*\| (.*) \|$`).FindSubmatch(page)
		if row == nil {
			t.Fatalf("docs/keys.md does not say what %s writes", name)
		}
		writes, _, _ := strings.Cut(string(row[1]), ";") // what follows is what it deletes
		writes, _, _ = strings.Cut(writes, " except ")
		for _, prefix := range regexp.MustCompile("`[^`]+`").FindAllString(writes, -1) {
			prefix = strings.NewReplacer("`", "", "*", "<node>", "<its node>", "<node>").Replace(prefix)
			if len(prefix) > longest && strings.HasPrefix(key, prefix) {
				who, longest = by, len(prefix)
			}
		}
	}
	return who
}
