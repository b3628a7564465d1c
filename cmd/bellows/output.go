package main

import (
	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/internal/output"
)

func outputFlag(cmd *cobra.Command) *output.Format {
	f := output.AsTable
	cmd.Flags().VarP(&f, "output", "o", "write the result as this; the fields of json and yaml are a contract")
	return &f
}
