package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newEndpointsSecret(s stage) *cobra.Command {
	var to clientFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "secret <endpoint>",
		Short: "Show an endpoint's secrets",
		Long: `Shows the secrets that sign for an endpoint now: the current one, and those that
were rotated out until their overlap ends. It needs a key with the scope admin.`,
		Example: `  hookladder endpoints secret shop-42`,
		Args:    oneEndpoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			secrets, err := c.EndpointSecret(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return printJSON(out, secrets)
			}
			for _, one := range secrets.Secrets {
				fmt.Fprint(out, one.Secret)
				if !one.Until.IsZero() {
					fmt.Fprint(out, "  until ", when(one.Until))
				}
				fmt.Fprintln(out)
				if one.PublicKey != "" {
					fmt.Fprintf(out, "  public key %s\n", one.PublicKey)
				}
			}
			return nil
		},
	}
	to.add(cmd, s)
	addJSON(cmd, &asJSON)
	return cmd
}

func newEndpointsRotateSecret(s stage) *cobra.Command {
	var to clientFlags
	var overlap, secretFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rotate-secret <endpoint>",
		Short: "Give an endpoint a new secret",
		Long: `Gives an endpoint a new secret. Until the overlap ends the old one signs as well, so
that the receiver may know either; with --overlap 0s the old one ends now.
It prints the new one; hookladder endpoints secret shows it again.`,
		Example: `  hookladder endpoints rotate-secret shop-42
  hookladder endpoints rotate-secret shop-42 --overlap 0s --secret-file new-secret`,
		Args: oneEndpoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			wait, err := ladder.ParseDuration(overlap)
			if err != nil {
				return usagef("--overlap: %w", err)
			}
			span := wire.Duration(wait)
			rotation := wire.Rotation{Overlap: &span}
			if secretFile != "" {
				if rotation.Secret, err = readSecretFile(secretFile, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			c, err := to.client()
			if err != nil {
				return err
			}
			e, err := c.RotateSecret(cmd.Context(), args[0], rotation)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), e)
			}
			printRotated(cmd.OutOrStdout(), e)
			return nil
		},
	}
	to.add(cmd, s)
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "how long the old secret goes on signing")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "a file that holds the new secret, - for standard input (default: one is made)")
	addJSON(cmd, &asJSON)
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
