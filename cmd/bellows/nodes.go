package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/render"
)

func nodesCommand() *cobra.Command {
	devices := false
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes, and which job has which of their devices",
		Long: `Lists the nodes. How busy their devices are and how much of their memory is used
is asked of each node's agent, which looks every 10 s; "-" where no driver
can say, as with simulated devices. -o json says how old each reading is, and why one is missing.
A node that is lost stays in the list until it is back, or removed.`,
		Args: command.Exactly(),
	}
	cmd.Flags().BoolVar(&devices, "devices", false, "list each device, with its temperature and its problems")
	out := command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, socket := agentOf(cmd)
		nodes, err := client.Nodes(cmd.Context())
		if err != nil {
			return ask.Explain(err, socket)
		}
		write := render.Nodes
		if devices {
			write = render.Devices
		}
		return out.Write(os.Stdout, nodes, func() error { return write(os.Stdout, nodes, output.StyleOf(os.Stdout)) })
	}
	cmd.AddCommand(nodesRemoveCommand())
	return cmd
}

func nodesRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "A node is gone for good: take it out of the cluster",
		Long: `Takes a node that is gone for good, or goes by another name now, out of the cluster: its
devices, why it was drained, its events. Only a node that is lost can be removed, and
only once nothing of a job can be left on it. It does not keep the node out: an agent of that name that
comes back joins as any new node does, and ends what still runs there from before.
Checkpoints and logs on its disks are not touched. Only root and the agent's user may.

A server with a coordinator that runs etcd has a place there, too: 'bellows etcd remove'.`,
		Args: command.Exactly("NODE"),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, socket := agentOf(cmd)
		reply, err := client.Remove(cmd.Context(), args[0])
		if err != nil {
			return ask.Explain(err, socket)
		}
		if reply.Removed {
			fmt.Fprintf(os.Stderr, "%s: removed\n", reply.Node)
			return nil
		}
		fmt.Fprintf(os.Stderr, "%s: asked for; a coordinator that leads removes it\n", reply.Node)
		return nil
	}
	return cmd
}
