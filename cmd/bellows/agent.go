package main

import (
	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/service"
	"github.com/bellows-ml/bellows/cli/settings"
)

func agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run this machine's agent",
		Long: `Runs the agent of this node until it is ended by a signal. Workers do not notice
when it ends and starts again; a node on which nothing runs leaves the cluster.
Messages are JSON lines on stderr.`,
		Args: command.Exactly(),
	}
	a := settings.NewAgent(cmd.Flags())
	withSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, flush := service.Logger()
		defer flush()
		k, err := a.Complete(log, chosenSocket(cmd))
		if err != nil {
			return err
		}
		ctx, stop := service.UntilTerminated(cmd.Context())
		defer stop()
		return service.RunAgent(ctx, k)
	}
	return cmd
}
