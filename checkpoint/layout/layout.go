// Package layout names the folders and files of checkpoints. No other Go package makes such
// a name or takes one apart; sdk/bellows.py and docs/environment.md know them too.
//
//	<base>/<job>/                      one job's checkpoints
//	  g00000003-k2x7.../               what generation 3 saves; after the hyphen, the nonce of its world
//	    step-000000000700/             a checkpoint
//	      rank-00000/                  files of rank 0
//	      .part-00000.json             one node's list of its files, until the manifest has it
//	      MANIFEST.json                the list of all files, with digests
//	      COMPLETE                     in its place, where a script without the SDK saves
//	  probe/                           what a node tries before a job is started there
//	  .trash/                          what is being deleted
package layout

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// The names of files and directories of checkpoints.
const (
	Manifest = "MANIFEST.json" // beside the ranks' directories, or in a plain script's step directory
	Complete = "COMPLETE"      // a plain script's word that its step directory is complete
	Trash    = ".trash"        // in a job's directory: deleted directories go here first, so that a removal that is interrupted leaves no checkpoint with files missing

	probe      = "probe"
	stepPrefix = "step-"
	partPrefix = ".part-"
)

// Path is where one generation saves, below the directory that its job's spec names.
func Path(base string, job cluster.JobID, g cluster.Generation, nonce string) string {
	return path.Join(base, string(job), Generation(g, nonce))
}

// Probe is where a node tries, below the directory that a job's spec names, whether the job could save.
func Probe(base string, job cluster.JobID) string { return path.Join(base, string(job), probe) }

// Generation is the directory of one generation, relative to its job's. With the nonce of
// its world it is no other's, also when numbers come again, and no one can make it first.
func Generation(g cluster.Generation, nonce string) string {
	dir := fmt.Sprintf("g%08d", uint64(g))
	if nonce != "" {
		dir += "-" + nonce
	}
	return dir
}

// generation is what Generation makes, without a nonce too.
var generation = regexp.MustCompile(`^g([0-9]{8,19})(?:-[0-9a-z]+)?$`)

// ParseGeneration reads the number of a directory that Generation has named.
func ParseGeneration(name string) (cluster.Generation, bool) {
	parts := generation.FindStringSubmatch(name)
	if parts == nil {
		return 0, false
	}
	g, err := strconv.ParseUint(parts[1], 10, 64)
	return cluster.Generation(g), err == nil
}

// Step is the directory that the SDK makes for a step, relative to its generation's.
func Step(step int64) string { return fmt.Sprintf("%s%012d", stepPrefix, step) }

// ParseStep reads the number of a directory step-<N>, with or without leading zeros: plain
// scripts name such directories themselves.
func ParseStep(name string) (int64, bool) {
	digits, ok := strings.CutPrefix(name, stepPrefix)
	if !ok {
		return 0, false
	}
	step, err := strconv.ParseUint(digits, 10, 63)
	return int64(step), err == nil //nolint:gosec // 63 bits fit
}

// Rank is the directory of one rank's files, relative to its checkpoint's.
func Rank(rank int) string { return fmt.Sprintf("rank-%05d", rank) }

// Part is where a node with a lowest rank leaves its list, relative to its checkpoint's directory.
func Part(lowest int) string { return fmt.Sprintf("%s%05d.json", partPrefix, lowest) }
