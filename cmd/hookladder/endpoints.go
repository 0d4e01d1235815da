package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newEndpoints(s world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "endpoints",
		Short: "Create and change endpoints",
		Long: `Creates and changes endpoints. An endpoint is a receiver with its own URL, topics,
secret and limits. A message without a destination goes to all endpoints of its tenant
whose topics match.

Commands take the id of an endpoint, or your own uid for it. "hookladder pause" and
"hookladder resume" take them too.`,
		Example: `  hookladder endpoints create --uid shop-42 --tenant shop_42 --url https://shop.example/hooks --topic 'payment.*'
  hookladder endpoints list --tenant shop_42
  hookladder endpoints rotate-secret shop-42 --overlap 24h`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("endpoints has no command %q; see hookladder endpoints --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newEndpointsCreate(s), newEndpointsList(s), newEndpointsGet(s), newEndpointsUpdate(s), newEndpointsDelete(s),
		newEndpointsConfirm(s), newEndpointsDeliveries(s),
		newEndpointsRotateSecret(s), newEndpointsSecret(s), newEndpointsTest(s), newEndpointsExport(s), newEndpointsImport(s),
	)
	return cmd
}

// oneEndpoint accepts one argument, the id or uid of an endpoint.
func oneEndpoint(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usagef("%s needs the id or uid of one endpoint; see %s --help", cmd.Name(), cmd.CommandPath())
	}
	return nil
}

func newEndpointsGet(s world) *cobra.Command {
	return apiCall[wire.EndpointView]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointView, error) {
			return c.Endpoint(cmd.Context(), args[0])
		},
		text: printEndpoint,
	}.on(&cobra.Command{
		Use:     "get <endpoint>",
		Short:   "Show an endpoint",
		Long:    `Shows an endpoint and its state, without its secret.`,
		Example: `  hookladder endpoints get shop-42`,
		Args:    oneEndpoint,
	}, s)
}

func newEndpointsConfirm(s world) *cobra.Command {
	return apiCall[wire.EndpointView]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointView, error) {
			return c.ConfirmEndpoint(cmd.Context(), args[0], args[1])
		},
		text: printEndpoint,
	}.on(&cobra.Command{
		Use:   "confirm <endpoint> <url>",
		Short: "Confirm a URL that was set by a link",
		Long: `Confirms a URL that a merchant's people set by a link. From then on the endpoint's
headers are sent to it, and ALLOW_NETS applies to it. Pass the URL that you checked:
if the endpoint has another URL by now, nothing is changed.`,
		Example: `  hookladder endpoints confirm shop-42 https://new.shop.example/hooks`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("confirm needs the id or uid of one endpoint, and its URL; see %s --help", cmd.CommandPath())
			}
			return nil
		},
	}, s)
}

func newEndpointsCreate(s world) *cobra.Command {
	var f endpointFlags
	var uid, tenant, secretFile string
	cmd := apiCall[wire.EndpointView]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.EndpointView, error) {
			e, err := f.endpoint(cmd, map[string]string{"uid": uid, "tenant": tenant}, secretFile)
			if err != nil {
				return wire.EndpointView{}, err
			}
			view, created, err := c.CreateEndpoint(cmd.Context(), e)
			if err == nil && !created {
				fmt.Fprintln(cmd.ErrOrStderr(), "it exists already, with the same fields")
			}
			return view, err
		},
		text: printEndpoint,
	}.on(&cobra.Command{
		Use:   "create",
		Short: "Create an endpoint",
		Long: `Creates an endpoint and prints it with its secret, which is a new one by default. With
your own --uid you may repeat the call: the same endpoint is returned again, and a
different one with that uid is refused.

With --pull the endpoint has no URL. Its deliveries wait until your program takes them
with POST /v1/queues/<its id>/take. They are signed as webhooks are.`,
		Example: `  hookladder endpoints create --uid till-7 --tenant shop_42 --pull --topic 'payment.*'
  hookladder endpoints create --uid shop-42 --tenant shop_42 --url https://shop.example/hooks --topic 'payment.*'
  hookladder endpoints create --url https://shop.example/hooks --topic '*' --rate 20/s --signature github`,
		Args: noArgs,
	}, s)
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&uid, "uid", "", "your own id for it, which commands and the API accept too")
	flags.StringVar(&tenant, "tenant", "", "the tenant whose messages it receives (default: messages without a tenant)")
	flags.BoolVar(&f.pull, "pull", false, "it has no URL: a program takes its deliveries")
	flags.StringVar(&secretFile, "secret-file", "", "a file with its secret, - for standard input (default: a new secret)")
	return cmd
}

func newEndpointsUpdate(s world) *cobra.Command {
	var f endpointFlags
	var unset []string
	cmd := apiCall[wire.EndpointView]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointView, error) {
			patch, err := f.patch(cmd, unset)
			if err != nil {
				return wire.EndpointView{}, err
			}
			return c.PatchEndpoint(cmd.Context(), args[0], patch)
		},
		text: printEndpoint,
	}.on(&cobra.Command{
		Use:   "update <endpoint>",
		Short: "Change an endpoint",
		Long: `Changes the fields of the flags, and no others. --topic replaces all topics. --header
and --metadata add one, or remove it if the text is empty. --unset resets a field to
its default.

A new URL, header, timeout or success is used from the next attempt on, also for
deliveries that are waiting. A new ladder is used from the next wait on.`,
		Example: `  hookladder endpoints update shop-42 --url https://new.shop.example/hooks
  hookladder endpoints update shop-42 --rate 5/s --header 'x-shop: 42'
  hookladder endpoints update shop-42 --unset rate --header 'x-shop:'`,
		Args: oneEndpoint,
	}, s)
	f.add(cmd)
	cmd.Flags().StringSliceVar(&unset, "unset", nil, "fields to reset to their default, such as rate,headers")
	completes(cmd, "unset", unsettable...)
	return cmd
}

func newEndpointsDelete(s world) *cobra.Command {
	var yes bool
	var name string
	cmd := apiCall[wire.EndpointDeleted]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointDeleted, error) {
			name = args[0]
			if !yes {
				if err := askDelete(cmd, s, c, name); err != nil {
					return wire.EndpointDeleted{}, err
				}
			}
			cancelled, err := c.DeleteEndpoint(cmd.Context(), name)
			return wire.EndpointDeleted{Cancelled: cancelled}, err
		},
		text: func(out io.Writer, d wire.EndpointDeleted) {
			fmt.Fprintf(out, "%s deleted; cancelled deliveries: %d\n", name, d.Cancelled)
		},
	}.on(&cobra.Command{
		Use:   "delete <endpoint>",
		Short: "Delete an endpoint, and cancel its waiting deliveries",
		Long: `Deletes an endpoint, cancels its waiting deliveries, and prints how many.

At a terminal it first shows how many deliveries are waiting, and asks. A script has
to pass --yes, or nothing is deleted. Cancelled deliveries can't be restored.`,
		Example: `  hookladder endpoints delete shop-42
  hookladder endpoints delete shop-42 --yes`,
		Args: oneEndpoint,
	}, s)
	cmd.Flags().BoolVar(&yes, "yes", false, "delete it without asking")
	return cmd
}

// askDelete prints the number of deliveries that a delete cancels. It returns an error unless the
// person agrees.
func askDelete(cmd *cobra.Command, s world, c *client.Client, name string) error {
	if !s.canAsk(cmd) {
		if _, err := c.Endpoint(cmd.Context(), name); errors.Is(err, client.ErrNotFound) {
			return err // --yes would not help
		}
		return usagef("delete cancels the waiting deliveries of %s: pass --yes, or run it at a terminal, where it asks", visible(name))
	}
	e, err := c.Endpoint(cmd.Context(), name)
	if err != nil {
		return err
	}
	tenant := ""
	if e.Tenant != "" {
		tenant = " of tenant " + visible(e.Tenant)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s%s, %s: %d waiting, which are cancelled, and %d in flight.\n",
		visible(name), tenant, visible(reachedAt(&e, originOf(e.URL))), e.Waiting, e.InFlight)
	if !agrees(cmd, "Delete it?") {
		return fmt.Errorf("%s was not deleted", visible(name))
	}
	return nil
}

func newEndpointsList(s world) *cobra.Command {
	var f client.EndpointFilter
	cmd := listCommand[wire.EndpointPage]{
		read: func(cmd *cobra.Command, c *client.Client, _ []string, p pageFlags) (wire.EndpointPage, error) {
			f.Limit, f.Cursor = p.limit, p.cursor
			return c.Endpoints(cmd.Context(), f)
		},
		table: func(out io.Writer, page wire.EndpointPage) { printEndpoints(out, page.Data) },
		next:  func(page wire.EndpointPage) *string { return page.NextCursor },
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List endpoints, the newest first",
		Long: `Lists endpoints, the newest first: all of them, or only the endpoints of a --tenant,
which may be repeated. --tenant '' lists the endpoints without a tenant. --state and
--like select further.`,
		Example: `  hookladder endpoints list
  hookladder endpoints list --state open --like shop
  hookladder endpoints list --tenant shop_42 --json`,
		Args: noArgs,
	}, s)
	addFilters(cmd, &f)
	return cmd
}

func printEndpoints(out io.Writer, list []wire.EndpointView) {
	printTable(out, "ENDPOINT\tUID\tTENANT\tSTATE\tTOPICS\tURL", list, func(e wire.EndpointView) []any {
		state := e.State
		if e.DisabledReason != "" && e.DisabledReason != "operator" {
			state += " (" + e.DisabledReason + ")"
		}
		if e.HeadersHeld {
			state += ", headers held"
		}
		return []any{e.ID, cmp.Or(e.UID, "-"), cmp.Or(e.Tenant, "-"), state, cmp.Or(strings.Join(e.Topics, " "), "-"), reachedAt(&e, e.URL)}
	})
}

func newEndpointsSecret(s world) *cobra.Command {
	return apiCall[wire.EndpointSecrets]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointSecrets, error) {
			return c.EndpointSecret(cmd.Context(), args[0])
		},
		text: printSecrets,
	}.on(&cobra.Command{
		Use:   "secret <endpoint>",
		Short: "Show an endpoint's secrets",
		Long: `Shows the secrets that sign for an endpoint now: the current secret, and previous ones
until their overlap ends. It needs a key with the scope admin.`,
		Example: `  hookladder endpoints secret shop-42`,
		Args:    oneEndpoint,
	}, s)
}

func printSecrets(out io.Writer, all wire.EndpointSecrets) {
	for _, one := range all.Secrets {
		fmt.Fprint(out, one.Secret)
		if !one.Until.IsZero() {
			fmt.Fprint(out, "  until ", whenText(one.Until))
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
		Long: `Gives an endpoint a new secret, and prints it. Until the overlap ends, the old secret
signs as well, so the receiver may have either. With --overlap 0s the old secret ends
now. hookladder endpoints secret prints the secrets again.`,
		Example: `  hookladder endpoints rotate-secret shop-42
  hookladder endpoints rotate-secret shop-42 --overlap 0s --secret-file new-secret`,
		Args: oneEndpoint,
	}, s)
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "how long the old secret signs as well")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "a file with the new secret, - for standard input (default: a random one)")
	return cmd
}

// printRotated prints the endpoint with its new secret, and the end of the old one.
func printRotated(out io.Writer, e wire.Rotated) {
	printEndpoint(out, e.EndpointView)
	if e.PublicKey != "" {
		fmt.Fprintf(out, "  %-13s %s\n", "public key", e.PublicKey)
	}
	until := "ended now"
	if !e.PreviousUntil.IsZero() {
		until = "signs too until " + whenText(e.PreviousUntil)
	}
	fmt.Fprintf(out, "  %-13s %s\n", "old secret", until)
}

// errNotTaken sets the exit code of a failed test. The receiver's response was printed.
var errNotTaken = errors.New("the endpoint did not accept the test message")

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
		Short: "Send an endpoint a test message, and show the response",
		Long: `Sends a message with the topic hookladder.test at once, before all waiting deliveries,
and shows the receiver's response. There is one attempt. The exit code is 1 if the
receiver did not accept it.`,
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
