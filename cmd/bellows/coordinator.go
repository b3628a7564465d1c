package main

import (
	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/service"
	"github.com/bellows-ml/bellows/cli/settings"
)

func coordinatorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coordinator",
		Short: "Run a candidate for leading the cluster",
		Long: `Runs a coordinator until it is ended by a signal. Of several, one leads and the
others wait to take over. Messages are JSON lines on stderr.

With --etcd embedded it also runs etcd, on this server alone or on three, each of
which runs a coordinator: see docs/etcd.md.`,
		Args: command.Exactly(),
	}
	c := settings.NewCoordinator(cmd.Flags())
	completePolicy(cmd)
	withSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, flush := service.Logger()
		defer flush()
		k, err := c.Complete(log)
		if err != nil {
			return err
		}
		ctx, stop := service.UntilTerminated(cmd.Context())
		defer stop()
		return service.RunCoordinator(ctx, k)
	}
	return cmd
}
