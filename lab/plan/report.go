package plan

import (
	"fmt"
	"math"
)

// Report is what bellows plan capacity writes; the fields are a contract.
type Report struct {
	Cost      float64 `json:"cost"`       // of all nodes while they run
	LateHours float64 `json:"late_hours"` // of all jobs
	LateCost  float64 `json:"late_cost"`  // weights × hours
	LateJobs  int     `json:"late_jobs"`
	EndH      float64 `json:"end_h"`
	Decisions int     `json:"decisions"`
	// GapPercent is how far the decisions may be from the best, together; certified.
	GapPercent float64       `json:"gap_percent"`
	Nodes      []NodeReport  `json:"nodes"`
	Phases     []PhaseReport `json:"phases"`
	Jobs       []JobReport   `json:"jobs"`
	Curve      []CurvePoint  `json:"curve"`
}

// NodeReport is how much of a node type is used.
type NodeReport struct {
	NodeType
	Hours float64 `json:"hours"`
	Peak  int     `json:"peak"` // at once
	Cost  float64 `json:"cost"`
}

// PhaseReport is which nodes run from one time to another.
type PhaseReport struct {
	FromH float64        `json:"from_h"`
	ToH   float64        `json:"to_h"`
	Nodes map[string]int `json:"nodes"` // by type
}

// JobReport is what becomes of a job.
type JobReport struct {
	Name      string   `json:"name"`
	SubmitH   float64  `json:"submit_h"`
	StartH    float64  `json:"start_h"`
	EndH      float64  `json:"end_h"`
	DeadlineH *float64 `json:"deadline_h"` // null = none
	LateH     float64  `json:"late_h"`
	Types     []string `json:"types"` // of nodes, in the order in which it runs on them
	Cost      float64  `json:"cost"`  // its shares of them
}

// CurvePoint is a plan in which lateness counts so many times as much.
type CurvePoint struct {
	Urgency   float64 `json:"urgency"`
	Cost      float64 `json:"cost"`
	LateHours float64 `json:"late_hours"`
	LateJobs  int     `json:"late_jobs"`
}

// NewReport makes a report of a plan and its curve.
func NewReport(c Catalogue, o Outcome, curve []Point) Report {
	r := Report{
		Cost: o.Cost, LateHours: o.LateHours, LateCost: o.LateCost, LateJobs: o.LateJobs, EndH: o.End, Decisions: o.Decisions, GapPercent: 100 * o.Gap(),
		Nodes: []NodeReport{}, Phases: []PhaseReport{}, Jobs: []JobReport{}, Curve: []CurvePoint{},
	}
	for v, t := range c.Types {
		n := NodeReport{NodeType: t, Hours: o.NodeHours[v], Cost: o.NodeHours[v] * t.Price}
		for _, p := range o.Phases {
			n.Peak = max(n.Peak, p.Nodes[v])
		}
		r.Nodes = append(r.Nodes, n)
	}
	for _, p := range o.Phases {
		nodes := map[string]int{}
		for v, n := range p.Nodes {
			if n > 0 {
				nodes[c.Types[v].Name] = n
			}
		}
		r.Phases = append(r.Phases, PhaseReport{p.From, p.To, nodes})
	}
	for _, j := range o.Jobs {
		x := JobReport{Name: j.Name, SubmitH: j.Submit, StartH: j.Start, EndH: j.End, LateH: j.Late, Cost: j.Cost}
		if !math.IsInf(j.Deadline, 1) {
			x.DeadlineH = &j.Deadline
		}
		for _, v := range j.Types {
			x.Types = append(x.Types, c.Types[v].Name)
		}
		r.Jobs = append(r.Jobs, x)
	}
	for _, p := range curve {
		r.Curve = append(r.Curve, CurvePoint{p.Urgency, p.Outcome.Cost, p.Outcome.LateHours, p.Outcome.LateJobs})
	}
	return r
}

// Clock writes a time of a plan as people read it: days, hours and minutes from its beginning.
func Clock(hours float64) string {
	m := int(math.Round(hours * 60))
	if m < 24*60 {
		return fmt.Sprintf("%d:%02d", m/60, m%60)
	}
	return fmt.Sprintf("%dd %d:%02d", m/1440, m/60%24, m%60)
}
