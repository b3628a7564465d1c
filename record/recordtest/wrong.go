package recordtest

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/record"
)

// longest is the absurd length of a string, and how deep lists are made.
const longest = 5000

// oddNames are what jobs, nodes and requests are never called.
func oddNames() []string {
	return []string{"", ".", "..", "../../etc", "a b", "\x1b[31mred", "-", "%2f", "a\nb", "\u202eabc", "\xff\xfe", strings.Repeat("x", longest)}
}

// Wrong returns the records with so many of them made wrong, and which those are, by
// the keys that they had. Records whose key spare names are left alone and not copied.
func Wrong(rng *rand.Rand, kvs []record.KV, faults int, spare func(key string) bool) (out []record.KV, touched []string) {
	w := wrong{rng: rng, words: words(kvs)}
	out = slices.Clone(kvs)
	open := slices.DeleteFunc(indices(len(out)), func(i int) bool { return spare != nil && spare(out[i].Key) })
	if len(open) == 0 {
		return out, nil
	}
	for range faults {
		i := open[rng.IntN(len(open))]
		if out[i].Key == "" {
			continue // deleted before
		}
		touched = append(touched, out[i].Key)
		switch rng.IntN(20) {
		case 0:
			out[i] = record.KV{}
		case 1:
			out[i].Value = []byte("?")
		case 2: // what belongs to another
			out[i].Value = out[open[rng.IntN(len(open))]].Value
		case 3:
			other := out[i]
			if other.Key = w.key(other.Key); spare == nil || !spare(other.Key) {
				out = append(out, other)
			}
		default:
			out[i].Value = w.value(out[i].Value)
		}
	}
	seen := map[string]bool{}
	out = slices.DeleteFunc(out, func(kv record.KV) bool {
		gone := kv.Key == "" || seen[kv.Key]
		seen[kv.Key] = true
		return gone
	})
	return out, touched
}

// Value returns JSON with one thing in it made wrong.
func Value(rng *rand.Rand, text []byte) []byte {
	w := wrong{rng: rng, words: words([]record.KV{{Value: text}})}
	return w.value(text)
}

type wrong struct {
	rng   *rand.Rand
	words []string // that occur in the records
}

func (w wrong) value(text []byte) []byte {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return text // wrong already
	}
	out, err := json.Marshal(w.within(v))
	if err != nil {
		panic("recordtest: what was JSON is none any more: " + err.Error())
	}
	return out
}

// within makes something at or below v wrong.
func (w wrong) within(v any) any {
	deeper := w.rng.IntN(8) > 0
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 || !deeper {
			return w.instead(v)
		}
		names := slices.Sorted(maps.Keys(x))
		name := names[w.rng.IntN(len(names))]
		switch w.rng.IntN(8) {
		case 0:
			delete(x, name)
		case 1:
			x[w.word()] = x[name]
		default:
			x[name] = w.within(x[name])
		}
		return x
	case []any:
		if len(x) == 0 || !deeper {
			return w.instead(v)
		}
		i := w.rng.IntN(len(x))
		switch w.rng.IntN(6) {
		case 0:
			return slices.Delete(x, i, i+1)
		case 1:
			return append(x, x[i]) // twice
		case 2:
			slices.Reverse(x)
			return x
		default:
			x[i] = w.within(x[i])
			return x
		}
	}
	return w.instead(v)
}

// instead is what stands in the place of v: mostly of its type, or nothing would
// get past the decoder.
func (w wrong) instead(v any) any {
	if w.rng.IntN(6) == 0 {
		all := []any{nil, true, 1.0, "x", []any{}, map[string]any{}, []any{nil}}
		return all[w.rng.IntN(len(all))]
	}
	switch x := v.(type) {
	case string:
		return w.word()
	case float64:
		all := []any{0, -1, 1, x + 1, x - 1, -x, json.Number("9223372036854775807"), json.Number("-9223372036854775808"), 1 << 31, json.Number("5e-324"), json.Number("1e308")}
		return all[w.rng.IntN(len(all))]
	case bool:
		return !x
	case []any:
		return []any{[]any{}, nil}[w.rng.IntN(2)]
	case map[string]any:
		return []any{map[string]any{}, nil}[w.rng.IntN(2)]
	}
	return w.word()
}

func (w wrong) word() string {
	switch odd := oddNames(); w.rng.IntN(4) {
	case 0:
		return odd[w.rng.IntN(len(odd))]
	case 1:
		all := []string{"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "-1h", "999999h", "running", "queued", "succeeded", "halting", "worker", "checkpoint"}
		return all[w.rng.IntN(len(all))]
	}
	if len(w.words) == 0 {
		return "x"
	}
	return w.words[w.rng.IntN(len(w.words))]
}

// key names something else in one place.
func (w wrong) key(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) < 4 {
		return key + w.word()
	}
	parts[3+w.rng.IntN(len(parts)-3)] = w.word()
	return strings.Join(parts, "/")
}

// words are all strings in the records, short ones: names, mostly.
func words(kvs []record.KV) []string {
	set := map[string]bool{}
	var add func(v any)
	add = func(v any) {
		switch x := v.(type) {
		case string:
			set[x] = len(x) < 100
		case []any:
			for _, e := range x {
				add(e)
			}
		case map[string]any:
			for name, e := range x {
				set[name] = true
				add(e)
			}
		}
	}
	for _, kv := range kvs {
		var v any
		if json.Unmarshal(kv.Value, &v) == nil {
			add(v)
		}
		for part := range strings.SplitSeq(kv.Key, "/") {
			set[part] = true
		}
	}
	maps.DeleteFunc(set, func(_ string, short bool) bool { return !short })
	return slices.Sorted(maps.Keys(set))
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
