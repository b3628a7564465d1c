package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/internal/fault"
)

// shimCommand is for agents only: they start one shim for each generation of a job.
func shimCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "shim --dir DIR",
		Short:  "Host the workers of one generation of a job on this node",
		Hidden: true,
		Args:   command.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return fault.Usage("shim: --dir is missing; agents start shims, people need not")
			}
			err := shim.Serve(cmd.Context(), dir)
			if ended, ok := errors.AsType[shim.Ended](err); ok {
				return fault.Exit(ended) // it has said why
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the run directory")
	return cmd
}
