package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newGet(s stage) *cobra.Command {
	var from clientFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get <id>",
		Short: "Show a message, its deliveries and their attempts",
		Long: `Shows a message and its deliveries. A delivery that failed has its attempts with
it, the newest 32, and the beginning of what the receiver answered to the last
ones. With --json it is what the API answers, body included, byte for byte.`,
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
				return printRecord(out, record)
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the API answers")
	return cmd
}

// printRecord prints a message as JSON, with its body as it was published:
// indented it would be another one.
func printRecord(out io.Writer, record wire.MessageView) error {
	body := record.Body
	record.Body = nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(record); err != nil {
		return err
	}
	text := b.String()
	if body != nil {
		text = strings.TrimSuffix(text, "\n}\n") + ",\n  \"body\": " + string(body) + "\n}\n"
	}
	_, err := io.WriteString(plainJSON{out}, text)
	return err
}
