package record

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// Locate reads a key. The place of one that this version does not know is of
// KindUnknown, and still names the node or job below which the key lies.
func Locate(key string) Place {
	at, _ := locate(key)
	return at
}

// locate reads a key, and finds its row; nil if there is none.
func locate(key string) (Place, *Row) {
	rest, below := strings.CutPrefix(key, Root)
	parts := strings.Split(rest, "/")
	if !below || slices.Contains(parts, "") { // no node, job or request is called so: its view would be that of none
		return Place{}, nil
	}
	at, p := keyTree, Place{}
	for _, part := range parts {
		switch word := at.words[part]; {
		case word != nil:
			at = word
		case at.any != nil && p.take(at.what, part):
			at = at.any
		default:
			return unknown(parts), nil
		}
	}
	if at.row == nil {
		return unknown(parts), nil
	}
	p.Kind = at.row.Kind
	switch p.Kind { //nolint:exhaustive // the others have no name, or it varies
	case KindLeader:
		p.Name = key
	case KindAck:
		p.Name = parts[len(parts)-1]
	}
	return p, at.row
}

// unknown is the place of a key that this version does not know.
func unknown(parts []string) Place {
	switch {
	case len(parts) < 3:
	case parts[0] == "nodes":
		return Place{Node: cluster.NodeID(parts[1])}
	case parts[0] == "jobs":
		return Place{Job: cluster.JobID(parts[1])}
	}
	return Place{}
}

// take reads what varies in a key into a place, and reports whether it can be that.
func (p *Place) take(what, text string) (ok bool) {
	switch what {
	case "<node>":
		p.Node = cluster.NodeID(text)
	case "<job>":
		p.Job = cluster.JobID(text)
	case "<gen>":
		p.Generation, ok = parseGen(text)
		return ok
	case "<step>":
		step, err := strconv.ParseInt(text, 10, 64)
		p.Step = step
		return err == nil
	case "<slot>":
		slot, err := strconv.ParseUint(text, 10, 16)
		p.Slot = slot
		return err == nil
	case "<uid>":
		n, err := strconv.ParseUint(text, 10, 32)
		p.UID = uint32(n)
		return err == nil && strconv.FormatUint(n, 10) == text
	case "<kind>":
		p.Name = text
		return cluster.CheckKind(text) == nil
	default: // <request>, <lease>
		p.Name = text
	}
	return true
}
