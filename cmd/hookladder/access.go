package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

func newLink(s world) *cobra.Command {
	var r wire.LinkRequest
	var lasts string
	cmd := apiCall[wire.NewLink]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.NewLink, error) {
			wait, err := ladder.ParseDuration(lasts)
			switch {
			case r.Tenant == "":
				return wire.NewLink{}, usagef("link needs --tenant: a link belongs to one tenant")
			case err != nil:
				return wire.NewLink{}, usagef("--for: %w", err)
			}
			r.For = wire.Duration(wait)
			return c.CreateLink(cmd.Context(), r)
		},
		text: func(out io.Writer, l wire.NewLink) {
			fmt.Fprintf(out, "%s\n  %-8s %s\n  %-8s %s\n", l.URL, "id", l.ID, "expires", whenText(l.ExpiresAt))
		},
	}.on(&cobra.Command{
		Use:   "link",
		Short: "Create a link with which a merchant's people see their deliveries",
		Long: `Creates a link for the people of one tenant, and prints it once. With the link they
see the tenant's deliveries in a browser, without a key. With --endpoint they see only
that endpoint.

With --manage they may also add an endpoint, change its URL, topics and description,
pause, resume, rotate the secret, test and resend, with 60 changes an hour at most. A
new URL is called after a test of it succeeded.

The link begins with PUBLIC_URL of the server. It ends when its API key is removed.
The key needs the scope admin.`,
		Example: `  hookladder link --tenant m7 --for 24h
  hookladder link --tenant m7 --for 7d --manage --name anna@m7.example
  hookladder link list
  hookladder link revoke lnk_2mzgqjcn4k7vw3ryd5ab`,
		Args: noArgs,
	}, s)
	flags := cmd.Flags()
	flags.StringVar(&r.Tenant, "tenant", "", "the tenant whose deliveries it shows")
	flags.StringVar(&r.Endpoint, "endpoint", "", "id or uid of the tenant's endpoint that it shows (default: all)")
	flags.StringVar(&lasts, "for", "24h", "how long the link is valid, at most 30d")
	flags.BoolVar(&r.Manage, "manage", false, "they may also change endpoints and resend")
	flags.StringVar(&r.Name, "name", "", "a name for the list of links, such as the person it is for")
	cmd.AddCommand(newLinkList(s), newLinkRevoke(s))
	return cmd
}

func newLinkList(s world) *cobra.Command {
	return listCommand[wire.LinkPage]{
		read: func(cmd *cobra.Command, c *client.Client, _ []string, p pageFlags) (wire.LinkPage, error) {
			return c.Links(cmd.Context(), p.limit, p.cursor)
		},
		table: func(out io.Writer, page wire.LinkPage) { printLinks(out, page.Data) },
		next:  func(page wire.LinkPage) *string { return page.NextCursor },
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List the links that have not expired, the newest first",
		Long: `Lists the links that have not expired, the newest first. The links themselves are not
stored. "ended: key" means that the API key of the link was removed, so it is invalid.`,
		Example: `  hookladder link list`,
		Args:    noArgs,
	}, s)
}

func printLinks(out io.Writer, list []wire.Link) {
	printTable(out, "LINK\tTENANT\tENDPOINT\tRIGHT\tNAME\tBY\tEXPIRES", list, func(l wire.Link) []any {
		right, expires := "view", whenText(l.ExpiresAt)
		if l.Ended != "" {
			expires = "ended: " + l.Ended
		}
		if l.Manage {
			right = "manage"
		}
		return []any{l.ID, l.Tenant, cmp.Or(l.Endpoint, "all"), right, cmp.Or(l.Name, "-"), l.By, expires}
	})
}

func newLinkRevoke(s world) *cobra.Command {
	type revoked struct {
		ID string `json:"id"`
	}
	return apiCall[revoked]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (revoked, error) {
			return revoked{args[0]}, c.RevokeLink(cmd.Context(), args[0])
		},
		text: func(out io.Writer, l revoked) { fmt.Fprintf(out, "%s is revoked\n", l.ID) },
	}.on(&cobra.Command{
		Use:     "revoke <link>",
		Short:   "Revoke a link",
		Long:    `Revokes a link by its id. Browsers that opened it lose access with their next request.`,
		Example: `  hookladder link revoke lnk_2mzgqjcn4k7vw3ryd5ab`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("revoke needs the id of one link; see %s --help", cmd.CommandPath())
			}
			return nil
		},
	}, s)
}

func newAudit(s world) *cobra.Command {
	var f client.AuditFilter
	var span spanFlags
	cmd := listCommand[wire.AuditPage]{
		read: func(cmd *cobra.Command, c *client.Client, _ []string, p pageFlags) (wire.AuditPage, error) {
			f.Limit, f.Cursor = p.limit, p.cursor
			return c.Audit(cmd.Context(), f)
		},
		table: func(out io.Writer, page wire.AuditPage) { printAudit(out, page.Data) },
		next:  func(page wire.AuditPage) *string { return page.NextCursor },
		then: func(cmd *cobra.Command, page wire.AuditPage, _ pageFlags, _ bool) error {
			if len(page.Data) == 0 && page.NextCursor == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), noEntry(f))
			}
			return nil
		},
	}.on(&cobra.Command{
		Use:   "audit",
		Short: "List who changed what, newest first",
		Long: `Lists who changed what: endpoints, secrets, pauses, retries, jobs and links. BY is
key:<name> for an API key, link:<id> for a link, system for Hookladder itself, or
local if there are no keys. TARGET is the id of the thing that was changed or created.

A call with an API key has an entry before its change, and a second entry if the
change failed. An act in the console or by a link has one entry, which is written when
the act has ended. If an instance is killed during such an act, there is no entry.

For calls of one kind, the first ten of a key in a minute have entries, and one more
entry counts the others. The newest 10,000 entries are kept, and in addition the newest
2,000 by links.

The key needs the scope admin. Filters may be repeated: any of their values matches.`,
		Example: `  hookladder audit
  hookladder audit --what endpoint.delete --since 24h
  hookladder audit --by key:ops --target ep_2mzgqjcn4 --json`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if err = noArgs(cmd, args); err == nil {
				f.Since, f.Until, err = span.read()
			}
			return err
		},
	}, s)
	addFilters(cmd, &f)
	span.add(cmd, "only changes")
	return cmd
}

// noEntry explains an empty audit: values are compared as a whole, so a name without its kind
// matches nothing.
func noEntry(f client.AuditFilter) string {
	text := "no entry matches"
	for _, by := range f.By {
		if !strings.Contains(by, ":") && by != dispatcher.System && by != dispatcher.Local {
			text += fmt.Sprintf("; --by %s: write key:%s for an API key, or link:<id> for a link", by, by)
		}
	}
	for _, target := range f.Targets {
		if !strings.Contains(target, "_") && !strings.Contains(target, "://") {
			text += fmt.Sprintf("; --target %s: an entry has the id of an endpoint, as `hookladder endpoints get %s` shows it", target, target)
		}
	}
	return text + "; the audit keeps the newest 10,000 entries"
}

func printAudit(out io.Writer, entries []wire.AuditEntry) {
	printTable(out, "AT\tBY\tWHAT\tTARGET\tTENANT\tDETAIL", entries, func(e wire.AuditEntry) []any {
		return []any{e.At, e.By, e.What, cmp.Or(e.Target, "-"), cmp.Or(e.Tenant, "-"), cmp.Or(e.Detail, "-")}
	})
}

func newSecret(s world) *cobra.Command {
	var tenant, scheme string
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Create a secret, or print a tenant's",
		Long: `Creates a new secret and prints it: for SIGNING_SECRET, or with --scheme for an
endpoint with another signature scheme.

With --tenant it prints the secret that verifies webhooks to a bare URL of that
tenant. It is derived from SIGNING_SECRET, which must be in the environment, together
with SIGNING_DERIVE=tenant, as for serve: without it such a secret signs nothing. If SIGNING_SECRET has several secrets, it prints one for each,
in their order. --tenant '' prints the secret of messages without a tenant.`,
		Example: `  hookladder secret
  hookladder secret --scheme github
  SIGNING_DERIVE=tenant SIGNING_SECRET_FILE=/run/secrets/signing hookladder secret --tenant shop_42`,
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
	if public, ok := secret.PublicKey(); ok { // not to stdout, which may go into a file
		fmt.Fprintf(cmd.ErrOrStderr(), "its public key is %s\n", public)
	}
	return nil
}

func printDerived(cmd *cobra.Command, tenant string, vars map[string]string) error {
	if tenant != "" && !dispatcher.ValidTenant(tenant) {
		return usagef("--tenant %q: must be 1 to 128 printable ASCII characters without spaces", tenant)
	}
	secrets, derive, err := signingSecrets(vars)
	if err != nil {
		return err
	}
	if len(secrets) == 0 {
		return usagef("nothing to derive from: set SIGNING_SECRET")
	}
	if derive != settings.DeriveTenant {
		return usagef("--tenant: such a secret signs nothing, because SIGNING_DERIVE is not tenant. Set SIGNING_DERIVE=tenant here and for serve; " +
			"without it, all webhooks to bare URLs are signed with SIGNING_SECRET itself")
	}
	for _, s := range secrets {
		fmt.Fprintln(cmd.OutOrStdout(), s.Derive(tenant).Reveal())
	}
	return nil
}

// signingSecrets returns the secrets of the environment and SIGNING_DERIVE, parsed as by the
// dispatcher.
func signingSecrets(vars map[string]string) (secrets []signer.Secret, derive string, err error) {
	only := map[string]string{}
	for _, name := range []string{"SIGNING_SECRET", "SIGNING_SECRET_FILE", "SIGNING_DERIVE"} {
		only[name] = vars[name]
	}
	read, _, err := settings.Read(settings.Sources{Environ: only})
	if err != nil {
		return nil, "", usageError{err}
	}
	return read.SigningSecret, read.SigningDerive, nil
}

// readSecretFile returns a secret from a file, or from standard input for "-". Commands that store
// a secret have no flag for the secret itself, because it would appear in the list of processes and
// in the shell's history.
func readSecretFile(name string, in io.Reader) (string, error) {
	text, err := readAtMost(name, in, maxSecretFile)
	if err != nil {
		return "", usagef("--secret-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
