package main

import (
	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/settings"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/simulate"
)

const built = " ('make build' in the sources makes it)"

// elsewhere are the commands of bellows-lab that people look for here.
var elsewhere = map[string]string{"reproduce": "bellows-lab reproduce" + built, "bench": "bellows-lab bench" + built}

// newProgram makes the tree of commands.
func newProgram() *command.Program {
	p := command.New("bellows", "An elastic worker runtime for deep learning training",
		"Bellows runs training jobs whose number of workers grows and shrinks while they train.\n\n"+
			"Exit status: 0 ok, 1 failed, 2 wrong usage or settings, 3 nothing answers, 4 a deadline is not promised, 5 a job of a dry run is too large; `run` passes the job's own through.",
		elsewhere)
	settings.DeclareSocket(p.Root.PersistentFlags())
	p.Group("daily", "Every day:",
		runCommand(), submitCommand(), psCommand(), showCommand(), logsCommand(), eventsCommand(), stopCommand(), resumeCommand(), scaleCommand(),
		profileCommand(), verifyCommand(), nodesCommand())
	p.Group("operator", "Running a cluster:",
		devCommand(), agentCommand(), coordinatorCommand(), configCommand(), tlsCommand(), etcdCommand(), drainCommand(), undrainCommand())
	p.Group("planning", "Planning:", simulate.Command(batch.Lab{}), planCommand()) // they answer "what if", and need no cluster
	p.Add(shimCommand(), internalCommand(p), command.Version())
	return p
}
