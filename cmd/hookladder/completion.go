package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/signer"
)

// completes has a shell offer the values of a flag.
func completes(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // there is no such flag, or it was given before
	}
}

// answers are the statuses that a receiver is tried out with most.
var answers = []string{
	"204\tdelivered", "200\tdelivered", "301\ta redirect: not followed", "400\ttried again", "410\tgone: dead at once",
	"429\ttried again, obeys Retry-After", "500\ttried again, counts for the breaker", "503\ttried again, obeys Retry-After",
}

// unsettable are the fields of an endpoint that have a default to go back to.
var unsettable = []string{
	"topics", "description", "metadata", "signature", "headers", "ladder", "timeout", "max_in_flight", "rate", "ordered", "success", "disabled",
}

func schemeNames() []string {
	var names []string
	for _, s := range signer.Schemes {
		names = append(names, s.String())
	}
	return slices.Clip(names)
}
