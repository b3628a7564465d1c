// Command bellows is all that a cluster needs in one program: what people type,
// the agent of a node, the coordinator, and a small cluster for one machine.
//
// What it promises of stdout, errors and exit statuses is in package cli/command;
// besides, 4 is a deadline that is not promised, 5 a job of a dry run that is too large
// (api.RefusedStatus), and `run` passes the job's own on.
// Here lie flags, files and wiring, one file a command; what is decided is
// decided in the packages that it ties together.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(newProgram().Run(context.Background(), os.Args[1:]))
}
