package jobspec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// Use is what a spec is made for.
type Use bool

// The uses.
const (
	Submission Use = false // the job's folders are made
	DryRun     Use = true  // nothing is left of the job
)

// prepare checks what can be checked here before a job is submitted, as the
// user who submits: the nodes check again before they start it. Of a job that is
// not submitted, because it is refused here or was already before, no folder is left.
func prepare(spec cluster.Spec, dropped bool) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	info, err := os.Stat(spec.Workdir)
	if err != nil {
		return fmt.Errorf("workdir %s: %w", spec.Workdir, fault.Reason(err))
	}
	if !info.IsDir() {
		return fmt.Errorf("workdir %s: it is a file, use a folder", spec.Workdir)
	}
	missing := missingFolders(spec.CheckpointDir)
	err = errors.Join(checkCommand(spec), checkEnvFile(spec), prepareCheckpointDir(spec.CheckpointDir))
	if dropped || err != nil {
		for _, dir := range missing {
			_ = os.Remove(dir) // fails if it was not made, or if it is in use by now
		}
	}
	return err
}

// missingFolders lists a folder that does not exist and its parents that do not, innermost first.
func missingFolders(dir string) (missing []string) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
	}
}

// checkEnvFile reads the file as each node will.
func checkEnvFile(spec cluster.Spec) error {
	if spec.EnvFile == "" {
		return nil
	}
	_, err := precheck.ReadEnvFile(spec.EnvFile, uint32(os.Getuid())) //nolint:gosec // a uid is not negative
	return err
}
