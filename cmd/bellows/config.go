package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/internal/output"
)

// daemons are the commands that take settings from a file.
func daemons() map[string]func() daemon {
	return map[string]func() daemon{"agent": agentDaemon, "coordinator": coordinatorDaemon}
}

// daemon is a command that runs until it is ended, and the check of its flags
// that it makes before anything else.
type daemon struct {
	cmd   *cobra.Command
	check func() error
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or show the settings of an agent or a coordinator",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
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
		Args:    exactly("FILE"),
	}
	roleFlag(cmd, &role)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		d, err := daemonOf(role)
		if err != nil {
			return err
		}
		file, err := readConfig(args[0])
		if err != nil {
			return err
		}
		s := newSettings(role, d.cmd.Flags())
		var bad, more fault.List
		bad.Add(s.fill(nil, file))
		more.Add(d.check()) // what could not be read is at its default
		for _, err := range more {
			bad.Add(s.inFile(file, err))
		}
		if len(bad) > 0 {
			return bad
		}
		fmt.Fprintf(os.Stderr, "%s: fine, %d of %d settings\n", args[0], len(s.origins), len(s.names()))
		return nil
	}
	return cmd
}

// inFile says where in a file stands what a daemon finds wrong with a flag.
func (s *settings) inFile(file configFile, err error) error {
	word, _, _ := strings.Cut(err.Error(), " ")
	name := strings.Trim(word, "-:")
	where, fromFile := strings.CutPrefix(s.origins[name], file.name+":")
	if !fromFile {
		return fmt.Errorf("%s: %w", file.name, err)
	}
	text := strings.TrimPrefix(err.Error(), "--")
	if fault.IsUsage(err) {
		return fault.Usage("%s:%s: %s", file.name, where, text)
	}
	return fmt.Errorf("%s:%s: %s", file.name, where, text)
}

// setting is one line of `config show`. Its JSON names are a contract.
type setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func configShowCommand() *cobra.Command {
	var role, file string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show what each setting of a daemon started here would be, and where that is from",
		Args:  exactly(),
	}
	roleFlag(cmd, &role)
	cmd.Flags().StringVar(&file, configFlag, "", "file of settings (default: the daemon's)")
	out := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		d, err := daemonOf(role)
		if err != nil {
			return err
		}
		flags := d.cmd.Flags()
		if err = flags.Lookup(configFlag).Value.Set(file); err != nil {
			return fmt.Errorf("--%s: %w", configFlag, err)
		}
		text, err := configOf(role, flags)
		if err != nil {
			return err
		}
		s := newSettings(role, flags)
		if err := s.fill(os.Environ(), text); err != nil {
			return err
		}
		list := s.list()
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

func (s *settings) list() []setting {
	var list []setting
	s.flags.VisitAll(func(f *pflag.Flag) {
		if !isSetting(s.role, f) {
			return
		}
		x := setting{Key: f.Name, Value: strings.Trim(f.Value.String(), "[]"), Origin: s.origins[f.Name]}
		if x.Origin == "" {
			x.Origin = "default"
		}
		list = append(list, x)
	})
	return list
}

func roleFlag(cmd *cobra.Command, role *string) {
	cmd.Flags().StringVar(role, "role", "agent", "whose settings: agent or coordinator")
}

func daemonOf(role string) (daemon, error) {
	build, ok := daemons()[role]
	if !ok {
		return daemon{}, fault.Usage("--role %q: use agent or coordinator", role)
	}
	d := build()
	addSocketFlag(d.cmd.Flags()) // the root command's, of which this one has none
	return d, nil
}
