package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func newEndpointsUpdate(s stage) *cobra.Command {
	var to clientFlags
	var what endpointFlags
	var unset []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "update <endpoint>",
		Short: "Change an endpoint",
		Long: `Changes what the flags name and leaves the rest. --topic replaces all topics;
--header and --metadata add to what is there, and take away what has no text.
--unset gives a field its default again.

URL, headers, timeout and success count from the next attempt on, of what waits
already too; a changed ladder from the next rung.`,
		Example: `  hookladder endpoints update shop-42 --url https://new.shop.example/hooks
  hookladder endpoints update shop-42 --rate 5/s --header 'x-shop: 42'
  hookladder endpoints update shop-42 --unset rate --header 'x-shop:'`,
		Args: oneEndpoint,
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := what.fields(cmd)
			if err != nil {
				return err
			}
			for _, name := range unset {
				name = strings.ReplaceAll(name, "-", "_")
				if _, given := patch[name]; given {
					return usagef("--unset %s: it is set as well", name)
				}
				patch[name] = nil
			}
			if len(patch) == 0 {
				return usagef("update needs a flag that changes something; see hookladder endpoints update --help")
			}
			c, err := to.client()
			if err != nil {
				return err
			}
			e, err := c.PatchEndpoint(cmd.Context(), args[0], patch)
			if err != nil {
				return err
			}
			return showEndpoint(cmd.OutOrStdout(), e, asJSON)
		},
	}
	to.add(cmd, s)
	what.add(cmd)
	cmd.Flags().StringSliceVar(&unset, "unset", nil, "fields to give their default again, such as rate,headers")
	completes(cmd, "unset", unsettable...)
	addJSON(cmd, &asJSON)
	return cmd
}
