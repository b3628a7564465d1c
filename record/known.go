package record

import (
	"slices"
	"strings"
)

// Known keeps the newest revision of every key that was taken in, by the part of
// the records in which the key lies: one job's, one node's, or the rest. What is
// deleted at once lies in one part, and is found without a look at the others.
type Known map[subtree]map[string]int64

// Revision returns the newest revision of a key, 0 if it is not there.
func (k Known) Revision(key string) int64 { return k[Locate(key).subtree()][key] }

// Take notes a change down, unless a newer one is known.
func (k Known) Take(ch Change) {
	part := Locate(ch.Key).subtree()
	keys := k[part]
	switch {
	case ch.Deleted && keys[ch.Key] <= ch.ModRevision:
		delete(keys, ch.Key)
		if len(keys) == 0 {
			delete(k, part)
		}
	case ch.Deleted:
	case keys == nil:
		k[part] = map[string]int64{ch.Key: ch.ModRevision}
	default:
		keys[ch.Key] = max(keys[ch.Key], ch.ModRevision)
	}
}

// Below returns the known keys under a prefix of one node's or one job's, sorted.
func (k Known) Below(prefix string) []string {
	var out []string
	for key := range k[Locate(prefix+"x").subtree()] {
		if strings.HasPrefix(key, prefix) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// Until returns the keys whose newest revision is at most this, sorted.
func (k Known) Until(revision int64) []string {
	var out []string
	for _, keys := range k {
		for key, mod := range keys {
			if mod <= revision {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
}
