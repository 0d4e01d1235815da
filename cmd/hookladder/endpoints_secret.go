package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newEndpointsSecret(s world) *cobra.Command {
	return apiCall[wire.EndpointSecrets]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointSecrets, error) {
			return c.EndpointSecret(cmd.Context(), args[0])
		},
		text: printSecrets,
	}.on(&cobra.Command{
		Use:   "secret <endpoint>",
		Short: "Show an endpoint's secrets",
		Long: `Shows the secrets that sign for an endpoint now: the current one, and those that
were rotated out until their overlap ends. It needs a key with the scope admin.`,
		Example: `  hookladder endpoints secret shop-42`,
		Args:    oneEndpoint,
	}, s)
}

func printSecrets(out io.Writer, all wire.EndpointSecrets) {
	for _, one := range all.Secrets {
		fmt.Fprint(out, one.Secret)
		if !one.Until.IsZero() {
			fmt.Fprint(out, "  until ", when(one.Until))
		}
		fmt.Fprintln(out)
		if one.PublicKey != "" {
			fmt.Fprintf(out, "  public key %s\n", one.PublicKey)
		}
	}
}

func newEndpointsRotateSecret(s world) *cobra.Command {
	var overlap, secretFile string
	cmd := apiCall[wire.Rotated]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.Rotated, error) {
			wait, err := ladder.ParseDuration(overlap)
			if err != nil {
				return wire.Rotated{}, usagef("--overlap: %w", err)
			}
			span := wire.Duration(wait)
			rotation := wire.Rotation{Overlap: &span}
			if secretFile != "" {
				if rotation.Secret, err = readSecretFile(secretFile, cmd.InOrStdin()); err != nil {
					return wire.Rotated{}, err
				}
			}
			return c.RotateSecret(cmd.Context(), args[0], rotation)
		},
		text: printRotated,
	}.on(&cobra.Command{
		Use:   "rotate-secret <endpoint>",
		Short: "Give an endpoint a new secret",
		Long: `Gives an endpoint a new secret. Until the overlap ends the old one signs as well, so
that the receiver may know either. With --overlap 0s the old one ends now.
It prints the new one; hookladder endpoints secret shows it again.`,
		Example: `  hookladder endpoints rotate-secret shop-42
  hookladder endpoints rotate-secret shop-42 --overlap 0s --secret-file new-secret`,
		Args: oneEndpoint,
	}, s)
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "how long the old secret signs too")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "a file that holds the new secret, - for standard input (default: one is made)")
	return cmd
}

// printRotated shows the endpoint with its new secret, and when the one before ends.
func printRotated(out io.Writer, e wire.Rotated) {
	printEndpoint(out, e.EndpointView)
	if e.PublicKey != "" {
		fmt.Fprintf(out, "  %-13s %s\n", "public key", e.PublicKey)
	}
	until := "ended now"
	if !e.PreviousUntil.IsZero() {
		until = "signs too until " + when(e.PreviousUntil)
	}
	fmt.Fprintf(out, "  %-13s %s\n", "old secret", until)
}

// errNotTaken makes the exit code of a test that failed. What the receiver
// answered was printed.
var errNotTaken = errors.New("the endpoint did not take the test message")

func newEndpointsTest(s world) *cobra.Command {
	return apiCall[wire.EndpointTest]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointTest, error) {
			return c.TestEndpoint(cmd.Context(), args[0])
		},
		text: printTest,
		then: func(_ *cobra.Command, answer wire.EndpointTest, _ bool) error {
			if answer.Outcome != "delivered" {
				return errNotTaken
			}
			return nil
		},
	}.on(&cobra.Command{
		Use:   "test <endpoint>",
		Short: "Send an endpoint a test message, and show its answer",
		Long: `Sends a message with the topic hookladder.test at once, ahead of all that waits,
and shows the receiver's answer. There is one attempt. The exit code is 1 if the
receiver did not take it.`,
		Example: `  hookladder endpoints test shop-42`,
		Args:    oneEndpoint,
	}, s)
}

func printTest(out io.Writer, answer wire.EndpointTest) {
	fmt.Fprintln(out, answer.MessageID)
	printAttempt(out, wire.Attempt{
		Attempt: 1, At: answer.At, DurationMS: answer.DurationMS, StatusCode: answer.StatusCode,
		Outcome: answer.Outcome, Error: answer.Error,
	})
	if answer.ResponseExcerpt != "" {
		fmt.Fprintf(out, "  answer       %q\n", answer.ResponseExcerpt)
	}
}
