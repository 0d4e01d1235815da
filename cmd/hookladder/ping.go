package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// pingPatience is below the usual timeout of a health check (5 s in the
// Dockerfile), so that the reason is printed before the command is killed.
const pingPatience = 4 * time.Second

func newPing(s stage) *cobra.Command {
	var to clientFlags
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Ask whether Hookladder is ready, for health checks",
		Long: `Asks /readyz. The exit code is 0 when it is ready, 1 when it answers that its
store can't be used, 4 when it does not answer, and 2 when nobody can be asked.

With LISTEN=off it asks at METRICS_LISTEN, where /healthz and /readyz are too. A
dispatcher without either can't be asked how it is; the image sets METRICS_LISTEN.`,
		Example: `  hookladder ping
  hookladder ping --server https://hooks.example
  LISTEN=off METRICS_LISTEN=127.0.0.1:9464 hookladder ping`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.clientAt(healthServer)
			if err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(cmd.Context(), pingPatience)
			defer stop()
			ready, err := c.Ready(ctx)
			if err != nil {
				return err
			}
			if ready.Store == nil { // no key was given, or one that may not read
				_, err = fmt.Fprintln(cmd.OutOrStdout(), ready.Status)
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s, on %s %s\n", ready.Status, ready.Store.Kind, ready.Store.Version)
			return err
		},
	}
	to.add(cmd, s)
	return cmd
}
