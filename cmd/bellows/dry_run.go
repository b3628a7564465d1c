package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/flags"
	"github.com/bellows-ml/bellows/cli/jobspec"
	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/render"
	"github.com/bellows-ml/bellows/cluster"
	"github.com/bellows-ml/bellows/internal/fault"
)

// dryRunLong is what the help of commands that submit says of --dry-run.
const dryRunLong = `With --dry-run nothing is submitted: it says whether the job would start on the
cluster as it is, when and with how many workers, which jobs would have fewer, when
it would end, and whether its deadline would hold. The decisions are those of the
coordinator's policy, run ahead in time with jobs like those that came lately. Exit
status 0 if the job would start, now or later, 4 if it would be refused for its
deadline, 5 if it is too large for the cluster as it is.
`

// dryRunFlag declares --dry-run.
func dryRunFlag(f *flags.Set) *bool {
	return f.Bool("dry-run", false, "submit nothing, and say when the job would start and end")
}

// checkDry refuses flags that say what becomes of a submission, where nothing is submitted.
func checkDry(cmd *cobra.Command, dry bool) error {
	for _, name := range []string{"detach", "accept-counter"} {
		if dry && cmd.Flags().Changed(name) {
			return fault.Usage("%s: --%s says what becomes of a submission, and with --dry-run nothing is submitted: leave one of them out", cmd.Name(), name)
		}
	}
	return nil
}

// useOf is what a spec is made for.
func useOf(dry bool) jobspec.Use { return jobspec.Use(dry) }

// dryRun says what would become of a job.
func dryRun(ctx context.Context, client *api.Client, spec cluster.Spec, out *output.Format) error {
	reply, err := ask.DryRun(ctx, client, spec)
	if err != nil {
		return err
	}
	warn(reply.Warnings)
	if err := out.Write(os.Stdout, reply, func() error { return render.DryRun(os.Stdout, reply, view()) }); err != nil {
		return err
	}
	switch {
	case reply.Refused:
		return fault.Exit(api.RefusedStatus)
	case reply.Start != nil && reply.Start.Never:
		return fault.Exit(api.NeverStartsStatus)
	}
	return nil
}
