package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

func scaleCommand() *cobra.Command {
	var req api.ScaleRequest
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "scale JOB",
		Short: "Change how many workers a job may have, and for how long",
		Long: `Changes the bounds of a job's number of workers. The next decision keeps to them: a job
that has fewer or more saves, stops and goes on at another size, or waits where there is
no room for its new minimum. A time limit counts at once: a job that has been running
for longer saves and ends, and one that is ending because of the old limit goes on. What
is not given stays. Only its owner or root may.`,
		Args: command.Exactly("JOB"),
	}
	cmd.Flags().IntVar(&req.MinWorkers, "min", 0, "least number of workers")
	cmd.Flags().IntVar(&req.MaxWorkers, "max", 0, "greatest number of workers")
	cmd.Flags().DurationVar(&limit, "time-limit", 0, "how long it may be running in all, as in 12h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("min") && !cmd.Flags().Changed("max") && !cmd.Flags().Changed("time-limit"):
			return fault.Usage("--min, --max, --time-limit: give at least one of them")
		case cmd.Flags().Changed("time-limit") && limit <= 0:
			return fault.Usage("--time-limit %s: use a time above zero such as 12h", limit)
		case cmd.Flags().Changed("min") && req.MinWorkers < 1:
			return fault.Usage("--min %d: use 1 or more", req.MinWorkers)
		case cmd.Flags().Changed("max") && req.MaxWorkers < 1:
			return fault.Usage("--max %d: use 1 or more", req.MaxWorkers)
		}
		req.TimeLimit = cluster.Duration(limit)
		client, socket := agentOf(cmd)
		req.RequestID = api.NewRequestID()
		var reply api.ScaleReply
		err := ask.Insist(func() (err error) {
			reply, err = client.Scale(cmd.Context(), args[0], req)
			return err
		})
		if err != nil {
			return ask.Explain(err, socket)
		}
		if cmd.Flags().Changed("min") || cmd.Flags().Changed("max") {
			fmt.Fprintf(os.Stderr, "%s: %s from the next decision on\n", reply.ID, render.Range(reply.MinWorkers, reply.MaxWorkers, "worker"))
		}
		if limit > 0 {
			fmt.Fprintf(os.Stderr, "%s: may be running for %s in all\n", reply.ID, reply.TimeLimit)
		}
		return nil
	}
	return cmd
}
