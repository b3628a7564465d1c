// Command bellows is what agents start of the program, and nothing else of it: shims, what looks as a job's owner,
// and what digests checkpoints. Tests with the race detector build it without.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bellows-ml/bellows/agent/precheck"
	"github.com/bellows-ml/bellows/agent/shim"
	"github.com/bellows-ml/bellows/checkpoint/dirblob"
)

func main() {
	if err := run(context.Background(), strings.Join(os.Args[1:min(3, len(os.Args))], " ")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command string) error {
	switch {
	case command == "shim --dir" && len(os.Args) == 4:
		return shim.Serve(ctx, os.Args[3])
	case command == "internal look":
		return precheck.Answer(ctx, os.Stdin, os.Stdout)
	case command == "internal digest":
		return dirblob.Serve(ctx, os.Stdin, os.Stdout)
	}
	return errors.New("no command of agents: " + command)
}
