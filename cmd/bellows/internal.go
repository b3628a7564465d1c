package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/nvml"
)

// internalCommand holds what the program runs of itself.
func internalCommand(p *command.Program) *cobra.Command {
	cmd := &cobra.Command{Use: "internal", Short: "Parts of the program that it runs itself", Hidden: true, Args: command.NoSuch}
	cmd.RunE = command.Help
	cmd.AddCommand(
		&cobra.Command{
			Use:   "digest",
			Short: "Do one checkpoint task, read from stdin, as the user that this runs as",
			Args:  command.Exactly(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return dirblob.Serve(cmd.Context(), os.Stdin, os.Stdout)
			},
		},
		&cobra.Command{
			Use:   "look",
			Short: "Look at what a job needs of this node, read from stdin, as the job's owner",
			Args:  command.Exactly(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return precheck.Answer(cmd.Context(), os.Stdin, os.Stdout)
			},
		},
		nvmlCommand(),
		&cobra.Command{
			Use:   "man DIR",
			Short: "Write a manual page for each command into DIR",
			Args:  command.Exactly("DIR"),
			RunE: func(_ *cobra.Command, args []string) error {
				return p.Manual(args[0])
			},
		},
	)
	return cmd
}

// nvmlCommand looks at the devices in a process of its own, as a call into the
// driver may hang or end it. Answers go to descriptor 3.
func nvmlCommand() *cobra.Command {
	var library string
	cmd := &cobra.Command{Use: "nvml", Short: "Look at this machine's devices, for each line read from stdin", Args: command.Exactly()}
	cmd.Flags().StringVar(&library, "library", "", "the driver's library (default: where the system has it)")
	cmd.RunE = func(*cobra.Command, []string) error {
		return nvml.Serve(os.Stdin, os.NewFile(3, "answers"), library)
	}
	return cmd
}
