package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newGet(s stage) *cobra.Command {
	var from calling
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get <id>",
		Short: "Show a message, its deliveries and their attempts",
		Long: `Shows a message and its deliveries. A delivery that failed has its attempts with
it, the newest 32. With --json it is what the API answers, body included.`,
		Example: `  hookladder get order_17
  hookladder get order_17 --json`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := from.client()
			if err != nil {
				return err
			}
			record, err := c.Message(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				text, err := record.Append(nil)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(plainJSON{out}, "%s\n", text)
				return err
			}
			fmt.Fprintf(out, "%s  %s, accepted %s\n", record.ID, record.Topic, when(record.CreatedAt))
			if record.Tenant != "" {
				fmt.Fprintf(out, "  %-12s %s\n", "tenant", record.Tenant)
			}
			for _, d := range record.Deliveries {
				fmt.Fprintln(out)
				printDelivery(out, d)
			}
			return nil
		},
	}
	from.add(cmd, s)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the API answers, on one line")
	return cmd
}
