package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newEndpoints(s stage) *cobra.Command {
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
		newEndpointsPause(s), newEndpointsResume(s),
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

// onEndpoint finishes a command that makes one call about one endpoint and
// shows what came of it.
func onEndpoint(s stage, cmd *cobra.Command, call endpointCall) *cobra.Command {
	var to clientFlags
	var asJSON bool
	cmd.Args = oneEndpoint
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := to.client()
		if err != nil {
			return err
		}
		e, err := call(c, cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return showEndpoint(cmd.OutOrStdout(), e, asJSON)
	}
	to.add(cmd, s)
	addJSON(cmd, &asJSON)
	return cmd
}

func addJSON(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print the answer as JSON")
}

func newEndpointsGet(s stage) *cobra.Command {
	return onEndpoint(s, &cobra.Command{
		Use:     "get <endpoint>",
		Short:   "Show an endpoint",
		Long:    `Shows an endpoint and how it stands. Its secret is not part of it.`,
		Example: `  hookladder endpoints get shop-42`,
	}, (*client.Client).Endpoint)
}

func newEndpointsPause(s stage) *cobra.Command {
	return onEndpoint(s, &cobra.Command{
		Use:     "pause <endpoint>",
		Short:   "Hold an endpoint: what is due waits",
		Long:    `Holds an endpoint. What is published for it is kept and waits until it is resumed.`,
		Example: `  hookladder endpoints pause shop-42`,
	}, (*client.Client).PauseEndpoint)
}

func newEndpointsResume(s stage) *cobra.Command {
	return onEndpoint(s, &cobra.Command{
		Use:   "resume <endpoint>",
		Short: "Let an endpoint go on, paused or disabled",
		Long: `Lets an endpoint go on that was paused or disabled. Its breaker is closed, and
what it asked for with Retry-After is forgotten.`,
		Example: `  hookladder endpoints resume shop-42`,
	}, (*client.Client).ResumeEndpoint)
}

func showEndpoint(out io.Writer, e wire.EndpointView, asJSON bool) error {
	if asJSON {
		return printJSON(out, e)
	}
	printEndpoint(out, e)
	return nil
}

// printEndpoint tells all of an endpoint that is set.
func printEndpoint(out io.Writer, e wire.EndpointView) {
	fmt.Fprintln(out, e.ID)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "  %-13s %s\n", name, text)
		}
	}
	row("uid", e.UID)
	row("tenant", e.Tenant)
	row("to", e.URL)
	row("topics", strings.Join(e.Topics, " "))
	row("description", e.Description)
	for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
		row("metadata", name+"="+e.Metadata[name])
	}
	state := e.State
	if e.DisabledReason != "" {
		state += " since " + when(e.DisabledAt) + " (" + e.DisabledReason + ")"
	}
	if e.Ordered {
		state += ", ordered"
	}
	row("state", fmt.Sprintf("%s, %d in flight, %d waiting", state, e.InFlight, e.Waiting))
	row("signature", e.Signature)
	row("secret", e.Secret)
	if e.Ladder != nil {
		row("ladder", e.Ladder.String())
	}
	if e.Timeout != 0 {
		row("timeout", time.Duration(e.Timeout).String())
	}
	if e.MaxInFlight != 0 {
		row("max in flight", fmt.Sprint(e.MaxInFlight))
	}
	row("rate", e.Rate)
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		row("header", name)
	}
	row("created", when(e.CreatedAt))
}
