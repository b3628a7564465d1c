package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/bellows-ml/bellows/api"
	"github.com/bellows-ml/bellows/cli/ask"
	"github.com/bellows-ml/bellows/cli/socketpath"
)

// agentOf makes the client for the agent that a command is to talk to.
func agentOf(cmd *cobra.Command) (*api.Client, string) {
	path := ask.Find(chosenSocket(cmd))
	return ask.Agent(path), path
}

// chosenSocket returns what --socket or $BELLOWS_SOCKET say, or "".
func chosenSocket(cmd *cobra.Command) string {
	if path, err := cmd.Flags().GetString(socketpath.Flag); err == nil && path != "" {
		return path
	}
	return os.Getenv(socketpath.Variable)
}
