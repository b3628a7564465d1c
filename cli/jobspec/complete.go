package jobspec

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bellows-ml/bellows/cluster"
)

// checkpointFolder is where a job saves unless it is told where.
const checkpointFolder = "checkpoints"

// complete fills in what a spec takes from where it is submitted, and makes its
// paths absolute; relative ones are taken from base.
func complete(spec cluster.Spec, base string) (cluster.Spec, error) {
	if !filepath.IsAbs(base) {
		return spec, fmt.Errorf("base folder %q is not absolute", base)
	}
	spec.Workdir = under(base, spec.Workdir)
	if spec.CheckpointDir == "" {
		spec.CheckpointDir = checkpointFolder
		spec.CheckpointDir = under(spec.Workdir, spec.CheckpointDir)
	} else {
		spec.CheckpointDir = under(base, spec.CheckpointDir)
	}
	if spec.EnvFile != "" {
		spec.EnvFile = under(base, spec.EnvFile)
	}
	if spec.Name == "" {
		spec.Name = defaultName(spec.Command)
	}
	return spec.WithDefaults(), nil
}

func under(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// defaultName names a job for its script, or else for its program.
func defaultName(command []string) string {
	if len(command) == 0 {
		return "job"
	}
	name := command[0]
	if script, module := scriptOf(command); module != "" {
		name = module[strings.LastIndexByte(module, '.')+1:]
	} else if script != "" {
		name = script
	}
	name = filepath.Base(name)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && cluster.CheckName("a"+string(r)+"a") == nil {
			return r
		}
		return '-'
	}, name)
	name = strings.Trim(name[:min(len(name), cluster.MaxNameBytes)], "-")
	if cluster.CheckName(name) != nil {
		return "job"
	}
	return name
}
