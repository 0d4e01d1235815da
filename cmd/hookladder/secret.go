package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

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
	read, _, err := readSettings(sources{environ: only})
	if err != nil {
		return nil, usageError{err}
	}
	return read.SigningSecret, nil
}
