package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/service"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/store"
	"github.com/bellows-ml/bellows/store/server"
)

// compactWithin bounds the work on a database at its quota, on a slow disk.
const compactWithin = 5 * time.Minute

func etcdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd",
		Short: "Look after the etcd that coordinators run",
		Long: `Looks after the etcd that coordinators run with --etcd embedded. Its address and
certificates are the coordinator's settings, from /etc/bellows/coordinator.yaml and
variables as BELLOWS_COORDINATOR_NAME: on a server with a coordinator that has them
there, these commands need no flags, but root, who may read the certificates. What
only coordinator.env has, which is systemd's, has to be given here again.
docs/etcd.md goes through it step by step.

  bellows etcd members               which servers there are, and how they are
  bellows etcd remove n3             a server is lost for good
  bellows etcd add n4 https://10.0.0.4:2380
  bellows etcd snapshot FILE         a backup of everything but checkpoints`,
		Args: command.NoSuch,
		RunE: command.Help,
	}
	cmd.AddCommand(etcdMembersCommand(), etcdAddCommand(), etcdRemoveCommand(), etcdSnapshotCommand(), etcdRestoreCommand(), etcdCompactCommand())
	return cmd
}

// etcdMember is a line of `etcd members`. Its JSON names are a contract.
type etcdMember struct {
	Name    string `json:"name"`
	State   string `json:"state"` // leader, member, joining, added, silent
	Peer    string `json:"peer"`
	Client  string `json:"client,omitempty"`
	Version string `json:"version,omitempty"`
	Bytes   int64  `json:"bytes"`
	InUse   int64  `json:"bytes_in_use"`
	Problem string `json:"problem,omitempty"`
}

// takeCoordinatorSettings gives a command those of the coordinator of this server.
func takeCoordinatorSettings(cmd *cobra.Command, more ...string) *settings.Local {
	s := settings.NewLocal(cmd.Flags(), more...)
	cmd.PreRunE = func(*cobra.Command, []string) error { return s.Fill(cmd.Flags()) }
	return s
}

func etcdMembersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members",
		Short: "List the servers that run etcd, and how they are",
		Long:  "Lists the servers that run etcd, and how they are. It works as long as one of them answers.",
		Args:  command.Exactly(),
	}
	s, out := takeCoordinatorSettings(cmd), command.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.With(cmd.Context(), func(c *store.Config) { c.AnyMember = true }, func(st *store.Store) error {
			members, err := server.NewAdmin(st).Members(cmd.Context())
			if err != nil {
				return err
			}
			list := make([]etcdMember, len(members))
			for i, m := range members {
				list[i] = etcdMember{
					Name: m.Name, State: memberState(m), Peer: m.URL, Client: m.Client, Version: m.Version, Bytes: m.Bytes, InUse: m.InUse, Problem: m.Problem,
				}
			}
			return out.Write(os.Stdout, list, func() error {
				t := output.Table{Head: []string{"NAME", "STATE", "PEER", "CLIENT", "VERSION", "DATA", "PROBLEM"}}
				for _, m := range list {
					t.Add(output.OrDash(m.Name), m.State, m.Peer, output.OrDash(m.Client), output.OrDash(m.Version), fmt.Sprintf("%.1f MB", float64(m.Bytes)/1e6), output.OrDash(m.Problem))
				}
				return t.Write(os.Stdout, output.StyleOf(os.Stdout))
			})
		})
	}
	return cmd
}

func memberState(m server.MemberStatus) string {
	switch {
	case m.Client == "":
		return "added"
	case !m.Answers:
		return "silent"
	case m.Learner:
		return "joining"
	case m.Leader:
		return "leader"
	}
	return "member"
}

func etcdAddCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME URL",
		Short: "Add a server that will run etcd too",
		Long: `Adds a server that will run etcd too. Started after that, with no
data, the coordinator there joins by itself: it copies all data, and votes once it
has them. One server at a time.`,
		Example: "  bellows etcd add n4 https://10.0.0.4:2380",
		Args:    command.Exactly("NAME", "URL"),
	}
	s := takeCoordinatorSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m := server.Member{Name: args[0], URL: strings.TrimSuffix(args[1], "/")}
		if err := settings.CheckMember(m); err != nil {
			return fault.Usage("%w", err)
		}
		return s.With(cmd.Context(), nil, func(st *store.Store) error {
			if err := server.NewAdmin(st).AddMember(cmd.Context(), m); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s: added; start its coordinator with --etcd embedded --name %s, no data, and %s=%s among its --etcd-members\n",
				m.Name, m.Name, m.Name, m.URL)
			return nil
		})
	}
	return cmd
}

func etcdRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a server out of etcd for good",
		Long: `Takes a server out of etcd for good; one that has never started is named by its
URL. Its coordinator ends, and its data are of no use any more. Refused where the
servers that are left would have no quorum.`,
		Args: command.Exactly("NAME"),
	}
	s := takeCoordinatorSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cluster.CheckName(args[0]); err != nil && !strings.Contains(args[0], "://") {
			return fault.Usage("member: %w", err)
		}
		return s.With(cmd.Context(), nil, func(st *store.Store) error {
			if err := server.NewAdmin(st).RemoveMember(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s: removed\n", args[0])
			return nil
		})
	}
	return cmd
}

func etcdSnapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Write all data of etcd to a file",
		Long: `Writes all data of etcd to a file, which must not exist: jobs and what became of
them, but no checkpoints, which lie where jobs keep them. bellows etcd restore
makes data directories of it.`,
		Args: command.Exactly("FILE"),
	}
	s := takeCoordinatorSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := service.UntilTerminated(cmd.Context()) // a part is removed
		defer stop()
		// A snapshot is read from one member: parts of two would not fit together.
		return s.With(ctx, func(c *store.Config) { c.AnyMember = true }, func(st *store.Store) error {
			size, err := server.NewAdmin(st).Snapshot(ctx, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s: written, %.1f MB\n", args[0], float64(size)/1e6)
			return nil
		})
	}
	return cmd
}

func etcdRestoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory of etcd from a snapshot",
		Long: `Makes this server's data directory of etcd from a snapshot. For when more than
half of the servers are lost with their disks: end all coordinators and agents,
restore each server from the same file, as root, start the coordinators, then the
agents. The files get the owner that the data directory has.
Jobs go on from the newest checkpoint that the snapshot knows.`,
		Args: command.Exactly("FILE"),
	}
	s := takeCoordinatorSettings(cmd, "data-dir", "cluster")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		k, err := s.Read()
		if err != nil {
			return err
		}
		if k.Member == nil {
			return fault.Usage("--etcd %s: a snapshot is restored for --etcd embedded; for another etcd use etcdutl snapshot restore", strings.Join(k.Etcd.Endpoints, ","))
		}
		if err := server.Restore(*k.Member, args[0]); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: restored into %s for %s\n", args[0], k.Member.DataDir, cmp.Or(k.Member.Member, "a single server"))
		return nil
	}
	return cmd
}

func etcdCompactCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Free what etcd keeps of the past, and end its alarm when it was full",
		Long: `Frees what etcd keeps of the past, gives the room back to the disk, one server
after the other, and ends the alarm with which a full etcd refuses writes. etcd
does the first by itself; this is for when it was full.`,
		Args: command.Exactly(),
	}
	s := takeCoordinatorSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.With(cmd.Context(), func(c *store.Config) { c.CallTimeout = compactWithin }, func(st *store.Store) error {
			return server.NewAdmin(st).Compact(cmd.Context())
		})
	}
	return cmd
}
