package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/internal/fault"
)

// Groups of commands in the help, by who needs them.
const (
	groupDaily    = "daily"
	groupOperator = "operator"
)

// newRoot makes the tree of commands. *started turns true once the flags and
// arguments of a command were found good and it begins.
func newRoot() (root *cobra.Command, started *bool) {
	started = new(bool)
	root = &cobra.Command{
		Use:   "bellows",
		Short: "An elastic worker runtime for deep learning training",
		Long: "Bellows runs training jobs whose number of workers grows and shrinks while they train.\n\n" +
			"Exit status: 0 ok, 1 failed, 2 wrong usage or settings, 3 nothing answers, 4 a deadline is not promised, 5 a job of a dry run is too large; `run` passes the job's own through.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { *started = true; return nil },
		Args:              noSuchCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetHelpCommand(helpCommand())
	settings.DeclareSocket(root.PersistentFlags())
	cobra.AddTemplateFunc("flagUsages", flags.Usages)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags:\n{{.LocalFlags.FlagUsages | trim", "{{flagUsages .LocalFlags | trim"))
	root.SetOut(os.Stdout)
	root.SetErr(os.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.Usage("%s\nSee '%s --help'", fault.OfFlag(err), cmd.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: groupDaily, Title: "Every day:"},
		&cobra.Group{ID: groupOperator, Title: "Running a cluster:"},
	)
	for _, c := range []*cobra.Command{runCommand(), submitCommand(), psCommand(), showCommand(), logsCommand(), eventsCommand(), stopCommand(), resumeCommand(), scaleCommand(), profileCommand(), verifyCommand(), nodesCommand()} {
		c.GroupID = groupDaily
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{
		devCommand(), agentCommand(), coordinatorCommand(), configCommand(), tlsCommand(), etcdCommand(), drainCommand(), undrainCommand(),
	} {
		c.GroupID = groupOperator
		root.AddCommand(c)
	}
	root.AddCommand(shimCommand(), internalCommand(), versionCommand())
	addPlanning(root)
	boundDurations(root)
	return root, started
}

// boundDurations has no flag of any command take a time that is longer than anything lasts.
func boundDurations(cmd *cobra.Command) {
	for _, set := range []*flags.Set{cmd.Flags(), cmd.PersistentFlags()} {
		flags.BoundDurations(set, settings.LongestTime)
	}
	for _, c := range cmd.Commands() {
		boundDurations(c)
	}
}

// helpCommand is cobra's own, but that a command that there is not is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil {
				return fault.AsUsage(err)
			}
			if len(rest) > 0 {
				return noSuchCommand(target, rest)
			}
			return target.Help()
		},
	}
}

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fault.Usage("there is no command %q%s; see 'bellows --help'", args[0], meant(cmd.SuggestionsFor(args[0])))
}

func meant(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(names, " or ") + "?"
}

// exactly demands as many arguments as there are names, which the message says.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fault.Usage("%s: %s is missing; see '%s --help'", cmd.CommandPath(), names[len(args)], cmd.CommandPath())
		case len(args) > len(names):
			return fault.Usage("%s: %q is one argument too many; see '%s --help'", cmd.CommandPath(), args[len(names)], cmd.CommandPath())
		}
		if i := slices.Index(args, ""); i >= 0 {
			return fault.Usage("%s: %s is empty; see '%s --help'", cmd.CommandPath(), names[i], cmd.CommandPath())
		}
		return nil
	}
}
