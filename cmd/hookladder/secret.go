package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
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
			fmt.Fprint(out, "  until ", term.When(one.Until))
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
		until = "signs too until " + term.When(e.PreviousUntil)
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

func newSecret(s world) *cobra.Command {
	var tenant, scheme string
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Make a secret, or print a tenant's",
		Long: `Makes a fresh secret and prints it: for SIGNING_SECRET, or with --scheme for an
endpoint that is signed in another way.

With --tenant it prints the secret that verifies callbacks to a bare URL of that
tenant, if SIGNING_DERIVE is tenant. It is derived from SIGNING_SECRET, which must
be in the environment. If that holds several secrets, it prints one for each, in
their order. --tenant '' prints the one for messages without a tenant.`,
		Example: `  hookladder secret
  hookladder secret --scheme github
  SIGNING_SECRET_FILE=/run/secrets/signing hookladder secret --tenant shop_42`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("tenant") {
				return printFresh(cmd, scheme)
			}
			if cmd.Flags().Changed("scheme") {
				return usagef("--tenant and --scheme: a tenant's secret is always a standard one")
			}
			return printDerived(cmd, tenant, s.vars())
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "print this tenant's secret instead of a fresh one")
	cmd.Flags().StringVar(&scheme, "scheme", signer.Standard.String(), "the signature scheme it is for: "+strings.Join(schemeNames(), ", "))
	completes(cmd, "scheme", schemeNames()...)
	return cmd
}

func printFresh(cmd *cobra.Command, name string) error {
	scheme, err := signer.ParseScheme(name)
	if err != nil {
		return usagef("--scheme: %w", err)
	}
	secret := scheme.NewSecret()
	fmt.Fprintln(cmd.OutOrStdout(), secret.Reveal())
	if public, ok := secret.PublicKey(); ok { // beside the output, which may go into a file
		fmt.Fprintf(cmd.ErrOrStderr(), "its public key is %s\n", public)
	}
	return nil
}

func printDerived(cmd *cobra.Command, tenant string, vars map[string]string) error {
	if tenant != "" && !dispatcher.ValidTenant(tenant) {
		return usagef("--tenant %q: must be 1 to 128 printable ASCII characters without spaces", tenant)
	}
	secrets, err := signingSecrets(vars)
	if err != nil {
		return err
	}
	if len(secrets) == 0 {
		return usagef("nothing to derive from: set SIGNING_SECRET")
	}
	for _, s := range secrets {
		fmt.Fprintln(cmd.OutOrStdout(), s.Derive(tenant).Reveal())
	}
	return nil
}

// signingSecrets are those of the environment, as the dispatcher reads them.
func signingSecrets(vars map[string]string) ([]signer.Secret, error) {
	only := map[string]string{}
	for _, name := range []string{"SIGNING_SECRET", "SIGNING_SECRET_FILE"} {
		only[name] = vars[name]
	}
	read, _, err := settings.Read(settings.Sources{Environ: only})
	if err != nil {
		return nil, usageError{err}
	}
	return read.SigningSecret, nil
}
