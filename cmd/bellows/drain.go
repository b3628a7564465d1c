package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/internal/units"
)

func drainCommand() *cobra.Command {
	var req api.DrainRequest
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Take a node out of service: its jobs save and go elsewhere",
		Long: `Gives a node no new work, and lets the jobs that run there save, stop and go on on other
nodes; jobs for which there is no room wait. Jobs that have never saved stay until they
have. 'bellows nodes' shows it as draining, and as drained once it is empty. It stays so
until 'bellows undrain'. Only root and the agent's user may.

--down says that a lost node is switched off for certain: a node that was alone in its
cluster when it was lost may run its workers on, so its jobs wait for it, or for this. It
counts until the node is there again. One that is gone for good: 'bellows nodes remove'.`,
		Args: command.Exactly("NODE"),
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for those who look at the node")
	cmd.Flags().BoolVar(&req.Down, "down", false, "the node is lost, and nothing runs on it any more: you have made sure")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, socket := agentOf(cmd)
		reply, err := client.Drain(cmd.Context(), args[0], req)
		if err != nil {
			return ask.Explain(err, socket)
		}
		fmt.Fprintf(os.Stderr, "%s: gets no new work; %s on it\n", reply.Node, units.Count(reply.Jobs, "job"))
		return nil
	}
	return cmd
}

func undrainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undrain NODE",
		Short: "Put a node into service again",
		Long:  `Gives a node that was drained or cordoned work again. Only root and the agent's user may.`,
		Args:  command.Exactly("NODE"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, socket := agentOf(cmd)
		reply, err := client.Undrain(cmd.Context(), args[0])
		if err != nil {
			return ask.Explain(err, socket)
		}
		fmt.Fprintf(os.Stderr, "%s: gets work again\n", reply.Node)
		return nil
	}
	return cmd
}
