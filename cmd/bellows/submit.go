package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

func submitCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "submit -f FILE",
		Short: "Submit a job that a YAML file describes, and print its identifier",
		Long: `Submits a job. The file's keys are the flags of 'bellows run', and command; relative
paths are taken from the file's own folder, which is also the workdir unless it
says another. Unknown and repeated keys are refused, and every fault is reported
with its line. '-f -' reads from stdin.

  command: [python, train.py, --lr, "0.1"]
  min: 1
  max: 8
  batch-size: 256:1024
  steps: 10000
  env:
    OMP_NUM_THREADS: "1"`,
		Args: exactly(),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the job file")
	out := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return fault.Usage("submit: the job file is missing, as in: bellows submit -f job.yaml")
		}
		spec, err := specFromFile(file)
		if err != nil {
			return err
		}
		client, socket := agentOf(cmd)
		reply, err := submit(cmd.Context(), client, spec)
		if err != nil {
			return explain(err, socket)
		}
		announce(reply)
		return out.Write(os.Stdout, reply, func() error {
			_, err := fmt.Fprintln(os.Stdout, reply.ID)
			return err
		})
	}
	return cmd
}

// specFromFile makes a whole, checked spec of a job file.
func specFromFile(path string) (cluster.Spec, error) {
	in, base := os.Stdin, "."
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return cluster.Spec{}, fault.Usage("open job file %s: %w", path, fault.Reason(err))
		}
		defer f.Close()
		in, base = f, filepath.Dir(path)
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return cluster.Spec{}, fmt.Errorf("find folder of %s: %w", path, err)
	}
	f, err := readJobFile(in, filepath.Base(path), time.Now())
	if f == nil {
		return cluster.Spec{}, err
	}
	// The rest is checked as well, so that all faults come at once.
	spec := f.spec
	if spec.Env, err = submitterEnvironment(f.env); err != nil {
		return spec, f.take(err)
	}
	if spec, err = complete(spec, base); err != nil {
		return spec, err
	}
	return spec, f.take(prepareUnless(f, spec))
}

// prepareUnless checks a spec as far as its file could be read: a key that was
// refused has been reported, and what it left unset would be a second fault.
func prepareUnless(f *jobFile, spec cluster.Spec) error {
	var rest []error
	refused := map[string]bool{}
	for _, x := range f.faults {
		for key, line := range f.lines {
			if line == x.line {
				refused[key] = true
			}
		}
	}
	for _, e := range fault.Each(prepare(spec, f.err() != nil)) {
		if where, ok := fieldOf(e.Error()); !ok || !refused[where.key] {
			rest = append(rest, e)
		}
	}
	return errors.Join(rest...)
}
