package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/command"
	"github.com/bellows-ml/bellows/cli/service"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  command.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(os.Stdout, "bellows "+service.Version())
			return err
		},
	}
}
