package coordinator

import (
	"slices"
	"strings"

	"github.com/bellows-ml/bellows/record"
)

// known is every key's newest revision that the mirror has taken in, by the
// part of the records that it lies in: one job's, one node's, or the rest. What
// is deleted at once lies in one part, and is found without a look at the others.
type known map[string]map[string]int64

// partOf returns the prefix, with its slash, of the job or node that the key is about; empty if of neither.
func partOf(key string) string {
	for _, all := range []string{record.JobsPrefix, record.NodesPrefix} {
		if rest, below := strings.CutPrefix(key, all); below {
			return key[:len(all)+strings.IndexByte(rest, '/')+1]
		}
	}
	return ""
}

func (k known) revision(key string) int64 { return k[partOf(key)][key] }

// take notes a change down, unless a newer one is known.
func (k known) take(ch record.Change) {
	part := partOf(ch.Key)
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

// below returns the known keys under a prefix that lies in one part, sorted.
func (k known) below(prefix string) []string {
	var out []string
	for key := range k[partOf(prefix)] {
		if strings.HasPrefix(key, prefix) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// until returns the keys whose newest revision is at most this, sorted.
func (k known) until(revision int64) []string {
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
