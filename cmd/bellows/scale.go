package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
)

func scaleCommand() *cobra.Command {
	var req api.ScaleRequest
	cmd := &cobra.Command{
		Use:   "scale JOB",
		Short: "Change how many workers a job may have",
		Long: `Changes the bounds of a job's number of workers. The next decision keeps to them: a job
that has fewer or more saves, stops and goes on at another size, or waits where there is
no room for its new minimum. A bound that is not given stays. Only its owner or root may.`,
		Args: exactly("JOB"),
	}
	cmd.Flags().IntVar(&req.MinWorkers, "min", 0, "least number of workers")
	cmd.Flags().IntVar(&req.MaxWorkers, "max", 0, "greatest number of workers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("min") && !cmd.Flags().Changed("max"):
			return usage("--min, --max: give at least one of them")
		case cmd.Flags().Changed("min") && req.MinWorkers < 1:
			return usage("--min %d: use 1 or more", req.MinWorkers)
		case cmd.Flags().Changed("max") && req.MaxWorkers < 1:
			return usage("--max %d: use 1 or more", req.MaxWorkers)
		}
		client, socket := agentOf(cmd)
		reply, err := client.Scale(cmd.Context(), args[0], req)
		if err != nil {
			return explain(err, socket)
		}
		fmt.Fprintf(os.Stderr, "%s: %s from the next decision on\n", reply.ID, rangeText(reply.MinWorkers, reply.MaxWorkers, "worker"))
		return nil
	}
	return cmd
}
