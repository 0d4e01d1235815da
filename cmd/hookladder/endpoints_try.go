package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// errNotTaken makes the exit code of a test that failed; what the receiver said
// was printed.
var errNotTaken = errors.New("the endpoint did not take the test message")

func newEndpointsTest(s stage) *cobra.Command {
	var to clientFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test <endpoint>",
		Short: "Send an endpoint a test message, and show what it said",
		Long: `Sends a message with the topic hookladder.test at once, past all that waits, and
shows what the receiver said. It is tried once. The exit code is 1 where the
receiver did not take it.`,
		Example: `  hookladder endpoints test shop-42`,
		Args:    oneEndpoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			said, err := c.TestEndpoint(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), said)
			} else {
				printTest(cmd.OutOrStdout(), said)
			}
			if err == nil && said.Outcome != "delivered" {
				err = errNotTaken
			}
			return err
		},
	}
	to.add(cmd, s)
	addJSON(cmd, &asJSON)
	return cmd
}

func printTest(out io.Writer, said wire.EndpointTest) {
	fmt.Fprintln(out, said.MessageID)
	printAttempt(out, wire.Attempt{
		Attempt: 1, At: said.At, DurationMS: said.DurationMS, StatusCode: said.StatusCode,
		Outcome: said.Outcome, Error: said.Error,
	})
	if said.ResponseExcerpt != "" {
		fmt.Fprintf(out, "  answer       %q\n", said.ResponseExcerpt)
	}
}
