// Command bellows-lab is the laboratory of Bellows: simulations under the conventions
// of other simulators, published experiments next to their figures, other solvers'
// answers, and the simulator beside a cluster of real processes. People who choose or
// write policies use it; a server needs bellows alone.
//
// What it promises of stdout, errors and exit statuses is in package cli/command.
package main

import (
	"context"
	"os"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/lab/batch"
	"github.com/bellows-ml/bellows/lab/milp"
	"github.com/bellows-ml/bellows/lab/referee"
	"github.com/bellows-ml/bellows/lab/rules"
	"github.com/bellows-ml/bellows/lab/simulate"
)

func main() {
	os.Exit(newProgram().Run(context.Background(), os.Args[1:]))
}

// newProgram makes the tree of commands.
func newProgram() *command.Program {
	p := command.New("bellows-lab", "The laboratory of Bellows: simulations, references and experiments",
		"bellows-lab compares what Bellows decides with what others publish.\n\n"+
			"Exit status: 0 ok, 1 failed, 2 wrong usage, 3 nothing answers.",
		map[string]string{"plan": "bellows plan", "run": "bellows run", "dev": "bellows dev"})
	p.Group("laboratory", "Commands:", simulate.Command(everything()), reproduceCommand(), benchCommand())
	p.Add(command.Version())
	return p
}

// everything is all that simulations can have.
func everything() batch.Lab {
	return batch.Lab{Rules: rules.Table(), CheckSolver: milp.CheckName, OpenSolver: referee.Open}
}
