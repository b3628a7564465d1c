package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/output"
	"github.com/bellows-ml/bellows/internal/units"
)

func stopCommand() *cobra.Command {
	var wait, now bool
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "Stop a job for good; it saves first",
		Long: `Asks a job to save and stop. It ends as 'stopped', and its checkpoints stay; 'bellows
resume' lets it go on. It has its --halt-timeout to save in, and is killed then. To ask
again changes nothing; with --now it is killed at once, also in the middle of a save, and
what it has not saved is lost. Only its owner or root may.`,
		Args: exactly("JOB"),
	}
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "return when it has ended")
	cmd.Flags().BoolVar(&now, "now", false, "kill it without waiting for a save: what it has not saved is lost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, socket := agentOf(cmd)
		reply, err := stopJob(cmd.Context(), client, args[0], now)
		if err != nil {
			return explain(err, socket)
		}
		fmt.Fprintln(os.Stderr, stopText(reply, now, time.Local))
		if reply.Ended || !wait {
			return nil
		}
		return explain(client.Watch(cmd.Context(), reply.ID, func(j api.JobStatus) error {
			if j.Ended {
				fmt.Fprintf(os.Stderr, "%s: %s: %s\n", j.ID, j.Phase, output.OneLine(j.Reason))
			}
			return nil
		}), socket)
	}
	return cmd
}

// stopJob asks for a job to stop, again if the fate of the request is unknown.
func stopJob(ctx context.Context, client *api.Client, job string, now bool) (reply api.StopReply, err error) {
	req := api.StopRequest{RequestID: api.NewRequestID(), Now: now}
	err = insist(func() error {
		reply, err = client.Stop(ctx, job, req)
		return err
	})
	return reply, err
}

// stopText says what a stop that was accepted comes to.
func stopText(r api.StopReply, now bool, zone *time.Location) string {
	by := ""
	if r.SaveUntil != nil {
		by = ", until " + r.SaveUntil.In(zone).Format("15:04:05") + " at most"
	} else if r.SaveWithinS > 0 {
		by = fmt.Sprintf(", within %s at most", units.Span(time.Duration(r.SaveWithinS*float64(time.Second))))
	}
	saves := r.Phase == cluster.Running || r.Phase == cluster.Starting || r.Phase == cluster.Halting
	switch {
	case r.Ended:
		return fmt.Sprintf("%s has ended already: %s", r.ID, r.Phase)
	case now:
		return r.ID + ": asked to stop at once: it is killed, and what it has not saved is lost"
	case r.Stopping && saves:
		return fmt.Sprintf("%s: was asked to stop before, and saves first%s; bellows stop --now %s kills it, and what it has not saved is lost", r.ID, by, r.ID)
	case saves:
		return fmt.Sprintf("%s: asked to stop; it saves first%s", r.ID, by)
	}
	return r.ID + ": asked to stop"
}
