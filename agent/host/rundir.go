package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bellows-ml/bellows/record"
)

// A run directory's name is <job, cut>-<hash of job and nonce>-g<generation>: short,
// because sockets lie in it, still readable, and no other generation's, also when
// numbers come again. What lies in it belongs to package shim.

const (
	// runReadable is how much of the job's identifier is in the name, runHash how much of the hash.
	runReadable, runHash = 16, 8
)

// runName is the name of a generation's run directory.
func runName(jg record.JobGen, nonce string) string {
	before, after := runNameParts(jg)
	sum := sha256.Sum256([]byte(string(jg.Job) + nonce))
	return before + hex.EncodeToString(sum[:])[:runHash] + after
}

func runNameParts(jg record.JobGen) (before, after string) {
	job := string(jg.Job)
	return job[:min(len(job), runReadable)] + "-", fmt.Sprintf("-g%d", jg.Generation)
}

// mayName reports whether a name is that of a generation of this number, whatever its nonce.
func mayName(name string, jg record.JobGen) bool {
	before, after := runNameParts(jg)
	return len(name) == len(before)+runHash+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// runDir is where a generation's run directory is, or would be.
func (sh *shared) runDir(jg record.JobGen, nonce string) string {
	return filepath.Join(sh.cfg.RunDir, runName(jg, nonce))
}
