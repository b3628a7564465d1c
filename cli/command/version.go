package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/service"
)

// Version is the command that prints the program's version.
func Version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(os.Stdout, cmd.Root().Name()+" "+service.Version())
			return err
		},
	}
}
