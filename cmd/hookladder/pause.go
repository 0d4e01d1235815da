package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// laneCall is one call about one destination, which answers how its lane stands then.
type laneCall func(c *client.Client, ctx context.Context, destination, tenant string) (wire.LaneState, error)

func newPause(s stage) *cobra.Command {
	return onLane(s, &cobra.Command{
		Use:   "pause <destination>",
		Short: "Hold a destination, or all of them",
		Long: `Holds a destination: what is published for it is kept and waits. It is named by its
lane, by the id or uid of an endpoint, or by a URL, which stands for what messages
of --tenant, or without it those of no tenant, send to its origin. '*' holds
everything. Attempts under way are left to finish.`,
		Example: `  hookladder pause https://shop.example/hooks --tenant shop_42
  hookladder pause '*'`,
	}, (*client.Client).PauseLane)
}

func newResume(s stage) *cobra.Command {
	return onLane(s, &cobra.Command{
		Use:   "resume <destination>",
		Short: "Let a destination go on, or all of them",
		Long: `Lets a destination go on that was paused or disabled. Its breaker is closed, and
what it asked for with Retry-After is forgotten. '*' takes back what pause '*' did;
what was paused by its own name stays so.`,
		Example: `  hookladder resume https://shop.example/hooks --tenant shop_42
  hookladder resume '*'`,
	}, (*client.Client).ResumeLane)
}

func onLane(s stage, cmd *cobra.Command, call laneCall) *cobra.Command {
	var to calling
	var asJSON bool
	var tenant string
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usagef("%s needs one destination: a lane, an endpoint, a URL, or '*' for all; see %s --help", cmd.Name(), cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := to.client()
		if err != nil {
			return err
		}
		lane, err := call(c, cmd.Context(), args[0], tenant)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), lane)
		}
		return printLanes(cmd.OutOrStdout(), lane)
	}
	to.add(cmd, s)
	cmd.Flags().StringVar(&tenant, "tenant", "", "whose messages to a URL are meant (default: those without a tenant)")
	addJSON(cmd, &asJSON)
	return cmd
}
