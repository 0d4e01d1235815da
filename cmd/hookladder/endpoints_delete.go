package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newEndpointsDelete(s stage) *cobra.Command {
	var to clientFlags
	var asJSON, yes bool
	cmd := &cobra.Command{
		Use:   "delete <endpoint>",
		Short: "Forget an endpoint, and cancel what waits for it",
		Long: `Forgets an endpoint. What waits for it is cancelled, and the answer says how much.

On a terminal it says how much waits and asks first. A script gives --yes: without
it nothing is deleted, since a word in the wrong place would cancel all that waits
for a receiver, and nothing brings that back.`,
		Example: `  hookladder endpoints delete shop-42
  hookladder endpoints delete shop-42 --yes`,
		Args: oneEndpoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !s.terminal && !onTerminal(cmd.InOrStdin()) {
				return usagef("delete cancels what waits for %s: give --yes, or call it on a terminal, where it asks", visible(args[0]))
			}
			c, err := to.client()
			if err != nil {
				return err
			}
			if !yes {
				if err := askDelete(cmd, c, args[0]); err != nil {
					return err
				}
			}
			cancelled, err := c.DeleteEndpoint(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), wire.EndpointDeleted{Cancelled: cancelled})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s deleted; cancelled deliveries: %d\n", args[0], cancelled)
			return err
		},
	}
	to.add(cmd, s)
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&yes, "yes", false, "delete it without asking")
	return cmd
}

// askDelete says what a delete cancels, and is an error unless a person agrees.
func askDelete(cmd *cobra.Command, c *client.Client, name string) error {
	e, err := c.Endpoint(cmd.Context(), name)
	if err != nil {
		return err
	}
	tenant := ""
	if e.Tenant != "" {
		tenant = " of tenant " + visible(e.Tenant)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s%s, %s: %d waiting, which are cancelled, and %d in flight.\nDelete it? [y/N] ",
		visible(name), tenant, visible(originOf(e.URL)), e.Waiting, e.InFlight)
	answer := make(chan string, 1)
	go func() { // a read of a terminal ends with no context
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // an end without an answer is a no
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-cmd.Context().Done():
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
	}
	return fmt.Errorf("%s was not deleted", visible(name))
}
