package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cluster"
)

func logsCommand() *cobra.Command {
	var follow bool
	var rank int
	var generation uint64
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Print what a job's workers wrote, over all its nodes",
		Long: `Prints what the workers of a job wrote, generation by generation, with the rank
before each line; with --rank the lines alone. On a terminal, escape sequences
other than colours are taken out; a file or a pipe gets every byte. -o json
writes a line of JSON for each line.`,
		Args: exactly("JOB"),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until the job has ended")
	cmd.Flags().IntVar(&rank, "rank", 0, "only this rank's lines (default: all)")
	cmd.Flags().Uint64Var(&generation, "generation", 0, "only this generation's lines (default: all)")
	out := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := api.LogQuery{Follow: follow, Generation: cluster.Generation(generation)}
		if cmd.Flags().Changed("rank") {
			if rank < 0 {
				return usage("--rank %d: use 0 or more", rank)
			}
			q.Rank = &rank
		}
		if cmd.Flags().Changed("generation") && generation == 0 {
			return usage("--generation 0: use 1 or more")
		}
		if *out == asYAML {
			return usage("--output yaml: log lines come as a table or as json")
		}
		client, socket := agentOf(cmd)
		return explain(client.Logs(cmd.Context(), args[0], q, logWriter(*out, q.Rank != nil)), socket)
	}
	return cmd
}

// logWriter writes lines to stdout; what is missing is a message.
func logWriter(out format, bare bool) func(api.LogLine) error {
	s := styleOf(os.Stdout)
	encoder := json.NewEncoder(os.Stdout)
	return func(line api.LogLine) error {
		var err error
		switch {
		case out == asJSON:
			err = encoder.Encode(line)
		case line.Notice != "":
			fmt.Fprintln(os.Stderr, "bellows: "+oneLine(line.Notice))
		case bare && s.terminal:
			_, err = fmt.Fprintln(os.Stdout, tame(line.Text))
		case bare:
			_, err = fmt.Fprintln(os.Stdout, line.Text)
		default:
			_, err = fmt.Fprintln(os.Stdout, prefixed(line, s))
		}
		return err
	}
}
