// Package capacity decides which nodes run, of which types, and how the devices of
// each are split among jobs, so that lateness, postponement and execution cost the
// least (Jahani et al., "Optimizing on-demand GPUs in the Cloud for Deep Learning
// Applications Training", IEEE CCCS 2019, section IV).
//
// A Problem has types of nodes, each with a number of devices, and jobs, each with a
// cost for every type and number of devices, and one for waiting. Terms.Job makes those
// costs of deadlines, weights, prices and times, as the paper's objective has them.
//
// Nodes of a type are interchangeable, and only their number and their devices couple
// jobs. With a price for each type's devices the problem falls apart into one choice a
// job: that is the bound, and it holds at any prices. A Result carries it; Cost − Bound
// is the most by which the plan can be too dear, and Eval values a plan independently.
//
// The plan is found in three steps. The prices are driven to where choices and devices
// balance. A search over the jobs whose choice is nearly a tie there finds the choices
// that fit the nodes with the least loss. Then each node is filled anew, of all types and
// with all jobs that it has or that wait, by an exact program, until none improves.
//
// Printed in the paper and mended here: x has the index g that (2) to (6) leave out;
// the objective's third term counts devices and its others money, so that μ is a price for
// each idle device (Type.Idle); (9) has nodes run that nothing needs, and holds only
// where Problem.Full says so.
package capacity
