package main

import (
	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/allocator/policy"
)

// completePolicy has the shell offer policies for --policy, with what each does.
func completePolicy(cmd *cobra.Command) {
	var offered []cobra.Completion
	for _, name := range policy.Names() {
		offered = append(offered, cobra.CompletionWithDesc(name, policy.About(name)))
	}
	// An error is of a flag that is not there, which help.txtar would see.
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(offered, cobra.ShellCompDirectiveNoFileComp))
}
