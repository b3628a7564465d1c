package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/policy"
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/dev"
	"github.com/bellows-ml/bellows/cli/settings"
)

func devCommand() *cobra.Command {
	var o dev.Options
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a small cluster with simulated devices on this machine",
		Long: `Runs etcd, a coordinator, and agents as processes of their own on 127.0.0.2,
127.0.0.3, …, each with simulated devices. What it needs lies in the data directory.
It is for trying out on a machine of your own: other users of the machine can reach
its etcd, and with it run programs as you.

Ctrl-C halts the jobs with a save, 10 s at most, and ends everything; the next start
on the same data directory goes on with them. A second Ctrl-C kills at once.`,
		Args: command.Exactly(),
	}
	p := cmd.PersistentFlags()
	p.StringVar(&o.DataDir, "data-dir", "", "where everything lies (default ${XDG_STATE_HOME:-~/.local/state}/bellows/dev)")
	f := cmd.Flags()
	f.IntVar(&o.Nodes, "nodes", dev.DefaultNodes, "number of nodes")
	f.IntVar(&o.Devices, "devices-per-node", dev.DefaultDevices, "simulated devices of each node")
	f.StringVar(&o.DeviceGroups, "device-groups", "", "which devices of each node are close to each other, as of an agent: 0-1,2-3")
	f.StringSliceVar(&o.DeviceModels, "device-models", nil, "models of the nodes' simulated devices, one node after the other and then again: a100,t4 (default: all alike)")
	f.IntVar(&o.NodesPerRack, "nodes-per-rack", 0, "so many nodes are in rack1, the next ones in rack2, …; 0 = in none")
	f.DurationVar(&o.Interval, "interval", dev.DefaultInterval, "time between decisions that may move running jobs")
	f.StringVar(&o.Policy, "policy", settings.DefaultPolicy, "how devices are shared out: "+policy.Usage())
	completePolicy(cmd)
	f.IntVar(&o.EtcdPort, "etcd-port", 0, fmt.Sprintf("port for etcd's clients (default %d, or a free one if that is taken)", dev.EtcdPort))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.PortGiven = cmd.Flags().Changed("etcd-port")
		o.Socket = chosenSocket(cmd)
		return dev.Run(cmd.Context(), o)
	}
	cmd.AddCommand(
		devControlCommand("kill", "Take a node down: kill its agent, its shims and its workers, as a power cut would"),
		devControlCommand("start", "Bring a node up again that was taken down"),
	)
	return cmd
}

func devControlCommand(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NODE",
		Short: short,
		Args:  command.Exactly("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := dev.Ask(cmd.Context(), chosenSocket(cmd), verb, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, text)
			return nil
		},
	}
}
