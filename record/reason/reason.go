// Package reason says why a job is where it is, and why something was done with it.
//
// A Reason is a list of clauses. A clause is a code and its arguments: that is what records hold, what programs
// compare, and what decisions may look at. String makes the text for people, here and nowhere else, so a text can
// be reworded without a change of behaviour:
//
//	r := reason.Of(reason.New(reason.NodesLost, "nodes", "n1"))
//	r = r.And(reason.New(reason.Restart, "n", 1, "most", 3))
//	r.Has(reason.Restart) // true
//	r.String()            // "node n1 lost; restart 1 of 3"
//
// What a script, a user or another program wrote is an argument, and stays as it was written. See ADR 60.
package reason

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Code names what a clause says. Codes are written to records and to -o json: they are never reused for something else.
type Code string

// Clause is one statement.
type Clause struct {
	Code Code              `json:"code"`
	Args map[string]string `json:"args,omitempty"`
	// Of is the reason that the statement is about, where it is about one.
	Of Reason `json:"of,omitempty"`
}

// Reason is what was found, in the order in which people read it; empty = there is nothing to say. It is never changed
// in place: records that were read from the same value share it.
type Reason []Clause

// New makes a clause. What follows the code are names and values in turn, those of the code's text.
func New(code Code, args ...any) Clause {
	c := Clause{Code: code}
	for i := 0; i+1 < len(args); i += 2 {
		if c.Args == nil {
			c.Args = map[string]string{}
		}
		c.Args[fmt.Sprint(args[i])] = fmt.Sprint(args[i+1])
	}
	return c
}

// About is the clause with the reason that it is about.
func (c Clause) About(r Reason) Clause {
	c.Of = r
	return c
}

// Of makes a reason.
func Of(clauses ...Clause) Reason { return clauses }

// Said is a text of which no code is known: of a record that an older version wrote, or of a policy.
func Said(text string) Reason {
	if text == "" {
		return nil
	}
	return Of(New(Text, "said", text))
}

// And is the reason followed by more.
func (r Reason) And(more ...Clause) Reason {
	return slices.Concat(r, more)
}

// Has reports whether one of the clauses has the code. Those that another clause is about do not count.
func (r Reason) Has(code Code) bool { return r.find(code) >= 0 }

// Arg returns an argument of the first clause that has the code; empty if there is none.
func (r Reason) Arg(code Code, name string) string {
	if i := r.find(code); i >= 0 {
		return r[i].Args[name]
	}
	return ""
}

// Until is what comes before the first clause that has the code; all of it if none has.
func (r Reason) Until(code Code) Reason {
	if i := r.find(code); i >= 0 {
		return r[:i:i]
	}
	return r
}

func (r Reason) find(code Code) int {
	return slices.IndexFunc(r, func(c Clause) bool { return c.Code == code })
}

// Includes reports whether the reason holds this clause, its arguments too, or a longer one that it was cut from.
func (r Reason) Includes(c Clause) bool {
	return slices.ContainsFunc(r, func(x Clause) bool { return x.Equal(c) })
}

// Begins reports whether a reason is how this one begins.
func (r Reason) Begins(with Reason) bool {
	return len(r) >= len(with) && r[:len(with)].Equal(with)
}

// Equal reports whether both say the same.
func (r Reason) Equal(o Reason) bool { return slices.EqualFunc(r, o, Clause.Equal) }

// Equal reports whether both say the same of the same.
func (c Clause) Equal(o Clause) bool {
	return c.Code == o.Code && maps.Equal(c.Args, o.Args) && c.Of.Equal(o.Of)
}

// Known reports whether this version has a text for each code.
func (r Reason) Known() bool {
	return !slices.ContainsFunc(r, func(c Clause) bool { return texts[c.Code] == "" || !c.Of.Known() })
}

// String is the text for people.
func (r Reason) String() string {
	parts := make([]string, len(r))
	for i, c := range r {
		parts[i] = c.String()
	}
	return strings.Join(parts, "; ")
}

// String is the clause's text. It has its arguments in braces: {node}, or {n worker} for a number of things. The reason
// that it is about is {of}, or follows a colon.
func (c Clause) String() string {
	text, of := texts[c.Code], c.Of.String()
	if text == "" {
		text = string(c.Code)
	}
	var b strings.Builder
	rest, placed := text, false
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		name, after, closed := strings.Cut(after, "}")
		if !found || !closed {
			break
		}
		name, thing, counted := strings.Cut(name, " ")
		switch {
		case name == "of":
			placed = true
			b.WriteString(of)
		case counted:
			b.WriteString(c.Args[name] + " " + thing)
			if c.Args[name] != "1" {
				b.WriteString("s")
			}
		default:
			b.WriteString(c.Args[name])
		}
		rest = after
	}
	if of != "" && !placed {
		b.WriteString(": " + of)
	}
	return b.String()
}

// Bounds of what a record holds.
const (
	mostClauses = 32
	mostDepth   = 4 // of reasons about reasons
	cutMark     = "… (cut)"
)

// Cut is the reason with a text of at most so many bytes. What is left out is left out at its end, and marked.
func (r Reason) Cut(most int) Reason { return r.cut(most, mostDepth) }

func (r Reason) cut(most, depth int) Reason {
	if r.within(most, depth) {
		return r
	}
	mark := New(LeftOut)
	if depth == 0 {
		return Of(mark)
	}
	room := most - len("; ") - len(mark.String())
	var out Reason
	for _, c := range r[:min(len(r), mostClauses)] {
		c = c.cut(room, depth)
		n := len(c.String())
		if n > room {
			break
		}
		out = append(out, c)
		room -= n + len("; ")
	}
	if len(out) == len(r) { // each was cut alone, and is marked where it was
		return out
	}
	return append(out.Until(LeftOut), mark)
}

// within reports whether there is nothing to cut. What no text shows counts, too.
func (r Reason) within(most, depth int) bool {
	switch {
	case len(r) == 0:
		return true
	case depth == 0: // what cut leaves there
		return r.Equal(Of(New(LeftOut)))
	case len(r) > mostClauses || len(r.String()) > most:
		return false
	}
	return !slices.ContainsFunc(r, func(c Clause) bool {
		return len(c.Args) != len(c.shown()) || !c.Of.within(most, depth-1)
	})
}

// cut is the clause with its longest argument cut, or else the reason that it is about, so that its text has at most so
// many bytes, if that can be.
func (c Clause) cut(most, depth int) Clause {
	c.Args = c.shown()
	c.Of = c.Of.cut(max(0, most-(len(c.String())-len(c.Of.String()))), depth-1)
	over := len(c.String()) - most
	longest := ""
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		if longest == "" || len(c.Args[name]) > len(c.Args[longest]) {
			longest = name
		}
	}
	if keep := len(c.Args[longest]) - over; over > 0 && keep > len(cutMark) {
		c.Args[longest] = cutText(c.Args[longest], keep)
	}
	return c
}

// shown are the arguments that the text names.
func (c Clause) shown() map[string]string {
	var out map[string]string
	for name, value := range c.Args {
		if strings.Contains(texts[c.Code], "{"+name+"}") || strings.Contains(texts[c.Code], "{"+name+" ") {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = value
		}
	}
	return out
}

// cutText cuts between two characters, and marks where.
func cutText(text string, most int) string {
	end := max(0, most-len(cutMark))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimSuffix(text[:end], "…") + cutMark
}
