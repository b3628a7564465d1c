// Package plot draws the runs of a batch against numbers of nodes, as SVG or as a
// page of HTML. Each policy has a colour, a dash and a shape of its own, and the
// same runs give the same bytes.
package plot
