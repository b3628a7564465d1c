package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/settings"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or show the settings of an agent or a coordinator",
		Args:  command.NoSuch,
		RunE:  command.Help,
	}
	cmd.AddCommand(configCheckCommand(), configShowCommand())
	return cmd
}

func configCheckCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a file of settings",
		Long: `Reads a file of settings as the daemon would, and says everything that is wrong
with it. Neither flags nor the environment count, and nothing is started or asked.`,
		Example: "  bellows config check --role agent /etc/bellows/agent.yaml",
		Args:    command.Exactly("FILE"),
	}
	roleFlag(cmd, &role)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		set, all, err := settings.Check(role, args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: fine, %d of %d settings\n", args[0], set, all)
		return nil
	}
	return cmd
}

// withSettings makes a daemon's command take its settings from the environment and a file, too.
func withSettings(cmd *cobra.Command) {
	role := cmd.Name()
	settings.DeclareFile(role, cmd.Flags())
	cmd.Long += settings.Sources(role)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return settings.Fill(role, cmd.Flags()) }
}

func configShowCommand() *cobra.Command {
	var role, file string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show what each setting of a daemon started here would be, and where that is from",
		Args:  command.Exactly(),
	}
	roleFlag(cmd, &role)
	cmd.Flags().StringVar(&file, settings.ConfigFlag, "", "file of settings (default: the daemon's)")
	out := command.OutputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		list, err := settings.Effective(role, file)
		if err != nil {
			return err
		}
		return out.Write(os.Stdout, list, func() error {
			t := output.Table{Head: []string{"KEY", "VALUE", "FROM"}}
			for _, x := range list {
				t.Add(x.Key, output.OrDash(x.Value), x.Origin)
			}
			return t.Write(os.Stdout, output.StyleOf(os.Stdout))
		})
	}
	return cmd
}

func roleFlag(cmd *cobra.Command, role *string) {
	cmd.Flags().StringVar(role, "role", "agent", "whose settings: agent or coordinator")
}
