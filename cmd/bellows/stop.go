package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
)

func stopCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "Stop a job for good; it saves first",
		Long: `Asks a job to save and stop. It ends as 'stopped', and its checkpoints stay. Asking
a second time, while it saves, kills it without waiting. Only its owner or root may.`,
		Args: exactly("JOB"),
	}
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "return when it has ended")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, socket := agentOf(cmd)
		reply, err := client.Stop(cmd.Context(), args[0])
		if err != nil {
			return explain(err, socket)
		}
		if reply.Ended {
			fmt.Fprintf(os.Stderr, "%s has ended already: %s\n", reply.ID, reply.Phase)
			return nil
		}
		fmt.Fprintf(os.Stderr, "%s: asked to stop\n", reply.ID)
		if !wait {
			return nil
		}
		return explain(client.Watch(cmd.Context(), reply.ID, func(j api.JobStatus) error {
			if j.Ended {
				fmt.Fprintf(os.Stderr, "%s: %s\n", j.ID, j.Phase)
			}
			return nil
		}), socket)
	}
	return cmd
}
