package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/record"
)

func resumeCommand() *cobra.Command {
	var fromStart bool
	var from int64
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "resume JOB",
		Short: "Let a stopped, failed or held job go on",
		Long: `Queues a job again that was stopped, has failed or is held. It goes on from its last
committed checkpoint; with --from, from an older one, or from one that was found damaged
and has been mended since; with --from-start it begins anew. What was saved after that
point is given up: it is not resumed from any more unless --from names it, and it stays
as long as 'bellows show JOB' lists it: until all checkpoints that are kept are newer,
after --from-start therefore until the first save. Whatever it goes on from is read as a
whole first, and given up for the one before if it is damaged. A job with a time limit
has the whole of it again, or another one with --time-limit. Only its owner or root may.`,
		Args: command.Exactly("JOB"),
	}
	cmd.Flags().BoolVar(&fromStart, "from-start", false, "begin at step 0, without any checkpoint")
	cmd.Flags().Int64Var(&from, "from", 0, "`STEP` of the checkpoint to begin with; 'bellows show JOB' lists them")
	cmd.Flags().DurationVar(&limit, "time-limit", 0, "how long it may be running from now on, as in 12h (default: as before)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var req api.ResumeRequest
		switch {
		case fromStart && cmd.Flags().Changed("from"):
			return fault.Usage("--from and --from-start: use one of them")
		case fromStart:
			from = record.FromStart
			req.From = &from
		case cmd.Flags().Changed("from"):
			if from < 0 {
				return fault.Usage("--from %d: use the step of a checkpoint, or --from-start", from)
			}
			req.From = &from
		}
		if cmd.Flags().Changed("time-limit") && limit <= 0 {
			return fault.Usage("--time-limit %s: use a time above zero such as 12h", limit)
		}
		req.TimeLimit = cluster.Duration(limit)
		client, socket := agentOf(cmd)
		req.RequestID = api.NewRequestID()
		var reply api.ResumeReply
		err := ask.Insist(func() (err error) {
			reply, err = client.Resume(cmd.Context(), args[0], req)
			return err
		})
		if err != nil {
			return ask.Explain(err, socket)
		}
		where := fmt.Sprintf("step %d", reply.Step)
		if reply.Step == record.FromStart {
			where = "the beginning"
		}
		fmt.Fprintf(os.Stderr, "%s: goes on from %s\n", reply.ID, where)
		return nil
	}
	return cmd
}
