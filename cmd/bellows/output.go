package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/render"
)

// view is how results are shown on stdout.
func view() render.View {
	return render.View{Style: output.StyleOf(os.Stdout), Now: time.Now(), Zone: time.Local}
}

func outputFlag(cmd *cobra.Command) *output.Format {
	f := output.AsTable
	cmd.Flags().VarP(&f, "output", "o", "write the result as this; the fields of json and yaml are a contract")
	return &f
}
