// Package command is what every program of Bellows has around its commands: the
// root with its help, exit statuses, checks of arguments, --output, the reference
// of commands and the manual pages.
//
//	p := command.New("bellows", "An elastic worker runtime …", long)
//	p.Root.AddCommand(…)
//	os.Exit(p.Run(ctx, os.Args[1:]))
//
// It promises that stdout is the result and stderr the messages, that every error
// says what to do about it, and an exit status that scripts can use: 0 ok, 1 failed,
// 2 wrong usage or settings, 3 nothing answers; a command may end with another
// (fault.Exit).
package command

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/service"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/internal/fault"
	"github.com/bellows-ml/bellows/store"
)

// Exit statuses.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitNoAnswer = 3
)

// A Program is a tree of commands.
type Program struct {
	Root    *cobra.Command
	started bool // flags and arguments of a command were found good, and it begins
}

// New makes a program without commands; elsewhere names commands of other programs, by what people may take them for.
func New(name, short, long string, elsewhere map[string]string) *Program {
	p := &Program{}
	p.Root = &cobra.Command{
		Use: name, Short: short, Long: long,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { p.started = true; return nil },
		RunE:              Help,
		Args:              NoSuch,

		SuggestionsMinimumDistance: 2,
	}
	for its := range elsewhere {
		// A command, and no check of the root's arguments: the root would refuse the flags that follow first.
		p.Root.AddCommand(&cobra.Command{
			Use: its, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error { return isElsewhere(name, its, elsewhere[its]) },
		})
	}
	p.Root.SetHelpCommand(helpCommand(elsewhere))
	cobra.AddTemplateFunc("flagUsages", flags.Usages)
	p.Root.SetUsageTemplate(strings.ReplaceAll(p.Root.UsageTemplate(), "Flags:\n{{.LocalFlags.FlagUsages | trim", "{{flagUsages .LocalFlags | trim"))
	p.Root.SetOut(os.Stdout)
	p.Root.SetErr(os.Stderr)
	p.Root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fault.Usage("%s\nSee '%s --help'", fault.OfFlag(err), cmd.CommandPath())
	})
	return p
}

// Group adds commands to the program, under a title in its help.
func (p *Program) Group(id, title string, commands ...*cobra.Command) {
	p.Root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	p.Add(commands...)
}

// Add adds commands to the program.
func (p *Program) Add(commands ...*cobra.Command) {
	for _, c := range commands {
		boundDurations(c)
		p.Root.AddCommand(c)
	}
}

// Run runs one command line and returns its exit status.
func (p *Program) Run(ctx context.Context, args []string) int {
	p.Root.SetArgs(args)
	err := p.Root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[fault.Exit](err); ok {
		return int(status)
	}
	service.PrintError(os.Stderr, p.Root.Name(), output.Plain(err.Error()))
	switch {
	case !p.started, fault.IsUsage(err), errors.Is(err, store.ErrUnfit), api.CodeOf(err) == api.Invalid:
		return exitUsage
	case errors.Is(err, api.ErrNoAgent), errors.Is(err, store.ErrUnreachable), api.CodeOf(err) == api.Unavailable:
		return exitNoAnswer
	}
	return exitFailed
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

// isElsewhere names the program that a command belongs to.
func isElsewhere(program, command, where string) error {
	return fault.Usage("%s %s: it is a command of another program: %s", program, command, where)
}

// helpCommand is cobra's own, but a command that does not exist, or exists elsewhere, is an error.
func helpCommand(elsewhere map[string]string) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && elsewhere[args[0]] != "" {
				return isElsewhere(cmd.Root().Name(), args[0], elsewhere[args[0]])
			}
			target, rest, err := cmd.Root().Find(args)
			if err != nil {
				return fault.AsUsage(err)
			}
			if len(rest) > 0 {
				return NoSuch(target, rest)
			}
			return target.Help()
		},
	}
}

// NoSuch refuses the arguments of a command that only has others below it.
func NoSuch(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fault.Usage("there is no command %q%s; see '%s --help'", args[0], meant(cmd.SuggestionsFor(args[0])), cmd.Root().Name())
}

func meant(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(names, " or ") + "?"
}

// Help shows the help of a command that only has others below it.
func Help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Exactly demands as many arguments as there are names, which the message says.
func Exactly(names ...string) cobra.PositionalArgs {
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

// OutputFlag declares --output.
func OutputFlag(cmd *cobra.Command) *output.Format {
	f := output.AsTable
	cmd.Flags().VarP(&f, "output", "o", "write the result as this; the fields of json and yaml are a contract")
	return &f
}
