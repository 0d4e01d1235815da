package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/show"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

func newEndpoints(s world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "endpoints",
		Short: "Register receivers, and change how they are called",
		Long: `Creates and changes endpoints: receivers with a URL, topics, a secret and limits
of their own. A message that names no URL goes to all endpoints of its tenant
whose topics match its own.

An endpoint is named by its id or by the uid that you gave it.`,
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
		newEndpointsPause(s), newEndpointsResume(s), newEndpointsConfirm(s), newEndpointsDeliveries(s),
		newEndpointsRotateSecret(s), newEndpointsSecret(s), newEndpointsTest(s),
	)
	return cmd
}

// oneEndpoint takes exactly the name of an endpoint.
func oneEndpoint(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usagef("%s needs the id or uid of one endpoint; see %s --help", cmd.Name(), cmd.CommandPath())
	}
	return nil
}

// endpointCall is one call about one endpoint, which answers how it stands then.
type endpointCall func(c *client.Client, ctx context.Context, name string) (wire.EndpointView, error)

// on makes the call what cmd runs.
func (call endpointCall) on(cmd *cobra.Command, s world) *cobra.Command {
	cmd.Args = oneEndpoint
	return apiCall[wire.EndpointView]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.EndpointView, error) {
			return call(c, cmd.Context(), args[0])
		},
		text: printEndpoint,
	}.on(cmd, s)
}

func newEndpointsGet(s world) *cobra.Command {
	return endpointCall((*client.Client).Endpoint).on(&cobra.Command{
		Use:     "get <endpoint>",
		Short:   "Show an endpoint",
		Long:    `Shows an endpoint and how it stands. Its secret is not part of it.`,
		Example: `  hookladder endpoints get shop-42`,
	}, s)
}

func newEndpointsPause(s world) *cobra.Command {
	return endpointCall((*client.Client).PauseEndpoint).on(&cobra.Command{
		Use:     "pause <endpoint>",
		Short:   "Hold an endpoint: what is due waits",
		Long:    `Holds an endpoint. What is published for it is kept and waits until it is resumed.`,
		Example: `  hookladder endpoints pause shop-42`,
	}, s)
}

func newEndpointsResume(s world) *cobra.Command {
	return endpointCall((*client.Client).ResumeEndpoint).on(&cobra.Command{
		Use:   "resume <endpoint>",
		Short: "Resume an endpoint that was paused or disabled",
		Long: `Lets an endpoint go on that was paused or disabled. Its breaker is closed, and
what it asked for with Retry-After is forgotten.`,
		Example: `  hookladder endpoints resume shop-42`,
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
		Short: "Make the URL that a link set your own",
		Long: `Makes the URL that a merchant's people set by a link your own: the endpoint's
headers are sent to it, and ALLOW_NETS holds for it. Give the URL as you have read it.
If the endpoint has another one by now, nothing is changed.`,
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
		Short: "Register a receiver",
		Long: `Registers a receiver and prints it with its secret, a new one unless you give
yours. With a --uid of your own you may repeat the call: the same endpoint again is
answered as it is, a different one with that uid is refused.

With --pull it has no URL: what it gets waits until your program takes it, with
POST /v1/queues/<its id>/take, signed as a callback is.`,
		Example: `  hookladder endpoints create --uid till-7 --tenant shop_42 --pull --topic 'payment.*'
  hookladder endpoints create --uid shop-42 --tenant shop_42 --url https://shop.example/hooks --topic 'payment.*'
  hookladder endpoints create --url https://shop.example/hooks --topic '*' --rate 20/s --signature github`,
		Args: noArgs,
	}, s)
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&uid, "uid", "", "a name of your own, usable wherever its id is")
	flags.StringVar(&tenant, "tenant", "", "the tenant whose messages it gets (default: messages without a tenant)")
	flags.BoolVar(&f.pull, "pull", false, "it has no URL: what it gets is taken")
	flags.StringVar(&secretFile, "secret-file", "", "a file that holds its secret, - for standard input (default: a new secret)")
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
		Long: `Changes what the flags name and leaves the rest. --topic replaces all topics;
--header and --metadata add to what is there; one without a text is removed.
--unset gives a field its default again.

A new URL, header, timeout or success is used from the next attempt on, also by
deliveries that wait already; a new ladder from the next rung on.`,
		Example: `  hookladder endpoints update shop-42 --url https://new.shop.example/hooks
  hookladder endpoints update shop-42 --rate 5/s --header 'x-shop: 42'
  hookladder endpoints update shop-42 --unset rate --header 'x-shop:'`,
		Args: oneEndpoint,
	}, s)
	f.add(cmd)
	cmd.Flags().StringSliceVar(&unset, "unset", nil, "fields to give their default again, such as rate,headers")
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
		Short: "Delete an endpoint, and cancel what waits for it",
		Long: `Deletes an endpoint. What waits for it is cancelled, and the answer says how much.

On a terminal it says how much waits and asks first. A script gives --yes: without
it nothing is deleted. A wrong name would cancel all that waits for a receiver, and
nothing brings that back.`,
		Example: `  hookladder endpoints delete shop-42
  hookladder endpoints delete shop-42 --yes`,
		Args: oneEndpoint,
	}, s)
	cmd.Flags().BoolVar(&yes, "yes", false, "delete it without asking")
	return cmd
}

// askDelete says what a delete cancels, and is an error unless a person agrees.
func askDelete(cmd *cobra.Command, s world, c *client.Client, name string) error {
	if !s.canAsk(cmd) {
		return usagef("delete cancels what waits for %s: give --yes, or call it on a terminal, where it asks", term.Visible(name))
	}
	e, err := c.Endpoint(cmd.Context(), name)
	if err != nil {
		return err
	}
	tenant := ""
	if e.Tenant != "" {
		tenant = " of tenant " + term.Visible(e.Tenant)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s%s, %s: %d waiting, which are cancelled, and %d in flight.\n",
		term.Visible(name), tenant, term.Visible(reachedAt(&e, originOf(e.URL))), e.Waiting, e.InFlight)
	if !term.Agrees(cmd, "Delete it?") {
		return fmt.Errorf("%s was not deleted", term.Visible(name))
	}
	return nil
}

func newEndpointsList(s world) *cobra.Command {
	var p pageFlags
	var tenants []string
	cmd := apiCall[wire.EndpointPage]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.EndpointPage, error) {
			return c.Endpoints(cmd.Context(), client.EndpointFilter{Tenants: tenants, Limit: p.limit, Cursor: p.cursor})
		},
		text: func(out io.Writer, page wire.EndpointPage) { printEndpoints(out, page.Data) },
		page: &p,
		next: func(page wire.EndpointPage) *string { return page.NextCursor },
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List endpoints, the newest first",
		Long: `Lists endpoints, the newest first: all of them, or those of a --tenant, which may be
repeated. With --tenant '' it lists those without a tenant.`,
		Example: `  hookladder endpoints list
  hookladder endpoints list --tenant shop_42 --json`,
		Args: noArgs,
	}, s)
	cmd.Flags().StringArrayVar(&tenants, "tenant", nil, "only those of this tenant; may be repeated")
	return cmd
}

func printEndpoints(out io.Writer, list []wire.EndpointView) {
	term.Table(out, "ENDPOINT\tUID\tTENANT\tSTATE\tTOPICS\tURL", list, func(e wire.EndpointView) []any {
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
	show.Attempt(out, wire.Attempt{
		Attempt: 1, At: answer.At, DurationMS: answer.DurationMS, StatusCode: answer.StatusCode,
		Outcome: answer.Outcome, Error: answer.Error,
	})
	if answer.ResponseExcerpt != "" {
		fmt.Fprintf(out, "  answer       %q\n", answer.ResponseExcerpt)
	}
}
