package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/trust"
)

// defaultAuthority is where the authority lies unless it is said; it stays on one machine.
const defaultAuthority = "bellows-ca"

func tlsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tls",
		Short: "Make and renew the certificates with which agents know each other",
		Long: `Makes a small certificate authority, a folder of files, and certificates of nodes
from it. An agent that has one (--tls-dir) talks to the agents of other machines:
'bellows logs' and 'bellows run' then show what workers wrote anywhere.

  bellows tls init                   once, on one machine; keep the folder safe
  bellows tls issue n1               makes the folder n1: copy it to that node
  bellows tls renew n1               before the certificate ends; no restart needed`,
		Args: command.NoSuch,
		RunE: command.Help,
	}
	cmd.AddCommand(tlsInitCommand(), tlsIssueCommand(false), tlsIssueCommand(true), tlsShowCommand())
	return cmd
}

func authorityFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "ca", defaultAuthority, "folder of the authority")
}

func tlsInitCommand() *cobra.Command {
	var dir, name string
	var rotate bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a certificate authority",
		Long: `Makes a certificate authority in a folder that has none. With --rotate it puts a
new one before those that are there: give the folder's ca.pem to every node, then
renew every node's certificate, then take the old ones out of ca.pem. Agents read
the files again by themselves.`,
		Args: command.Exactly(),
	}
	authorityFlag(cmd, &dir)
	cmd.Flags().StringVar(&name, "cluster", settings.DefaultCluster, "name of the cluster, for people who look at a certificate")
	cmd.Flags().BoolVar(&rotate, "rotate", false, "put a new authority before the present one")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := trust.Init(dir, name, rotate, time.Now()); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: made; keep %s there and to yourself; next: bellows tls issue NODE\n", dir, trust.AuthorityKeyFile)
		return nil
	}
	return cmd
}

func tlsIssueCommand(renew bool) *cobra.Command {
	var dir, out string
	days := int(trust.DefaultLife / (24 * time.Hour))
	cmd := &cobra.Command{
		Use:   "issue NODE",
		Short: "Make a node's key and certificate",
		Args:  command.Exactly("NODE"),
	}
	if renew {
		cmd.Use, cmd.Short = "renew NODE", "Make a new key and certificate in place of a node's"
		cmd.Long = `Makes a new key and certificate in place of those in the node's folder. An agent
takes them for its next connection, without a restart.`
	}
	authorityFlag(cmd, &dir)
	cmd.Flags().StringVar(&out, "out", "", "folder of the node's files (default: the node's name)")
	cmd.Flags().IntVar(&days, "days", days, "how long the certificate is valid")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := cluster.CheckName(args[0]); err != nil {
			return fault.Usage("node: %w", err)
		}
		if days < 1 {
			return fault.Usage("--days %d: use 1 or more", days)
		}
		folder := args[0]
		if out != "" {
			folder = out
		}
		if renew {
			if _, err := os.Stat(filepath.Join(folder, trust.CertFile)); err != nil {
				return fmt.Errorf("nothing to renew: %w: bellows tls issue %s makes the first", err, args[0])
			}
		}
		r := trust.Request{
			Authority: dir, Folder: folder, Node: cluster.NodeID(args[0]), Life: time.Duration(days) * 24 * time.Hour, Renew: renew,
		}
		if err := trust.Issue(r, time.Now()); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: certificate of node %s, valid for %d days; that node's agent takes it with --tls-dir\n", folder, args[0], days)
		return nil
	}
	return cmd
}

// certificate is what `tls show` says. Its JSON names are a contract.
type certificate struct {
	Folder    string    `json:"folder"`
	Node      string    `json:"node"`
	Authority string    `json:"authority"`
	Until     time.Time `json:"until"`
}

func tlsShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show FOLDER",
		Short: "Show whose certificate lies in a folder, from which authority, and how long it is valid",
		Args:  command.Exactly("FOLDER"),
	}
	out := command.OutputFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		node, authority, until, err := trust.Show(args[0])
		if err != nil {
			return err
		}
		c := certificate{Folder: args[0], Node: string(node), Authority: authority, Until: until.UTC()}
		return out.Write(os.Stdout, c, func() error {
			left := time.Until(until).Round(time.Hour)
			_, err := fmt.Fprintf(os.Stdout, "node       %s\nauthority  %s\nvalid      until %s (%s left)\n",
				c.Node, c.Authority, c.Until.Format(time.RFC3339), left)
			return err
		})
	}
	return cmd
}
