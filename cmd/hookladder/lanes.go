package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newLanes(s world) *cobra.Command {
	var tenant string
	var destinations []string
	var failing bool
	cmd := listCommand[wire.LanePage]{
		read: func(cmd *cobra.Command, c *client.Client, _ []string, p pageFlags) (wire.LanePage, error) {
			if failing {
				return c.FailingLanes(cmd.Context(), p.limit)
			}
			if len(destinations) > 0 {
				return c.LanesOf(cmd.Context(), tenant, destinations...)
			}
			return c.Lanes(cmd.Context(), p.limit, p.cursor)
		},
		table: func(out io.Writer, page wire.LanePage) { printLanes(out, page.Data...) },
		next:  func(page wire.LanePage) *string { return page.NextCursor },
	}.on(&cobra.Command{
		Use:   "lanes",
		Short: "List the queues of destinations (lanes) with their states",
		Long: `Lists the lanes, the paused ones first, then the newest. The deliveries to one
destination wait in a lane. A destination is an endpoint, a queue, or the origin
(scheme, host and port) of a tenant's bare URLs. BY is the API key that paused,
disabled or deleted the lane. The lane * means all lanes, and is listed while all of
them are paused.

With --destination it lists only the lanes of these destinations. A lane that does not
exist yet is left out. With --failing it lists only the lanes whose attempts fail, the
most waiting first, at most 500. LAST FAILURE is the last attempt that failed, with its
message.`,
		Example: `  hookladder lanes
  hookladder lanes --destination shop-42 --destination https://shop.example --tenant shop_42
  hookladder lanes --failing
  hookladder lanes --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case failing && (len(destinations) > 0 || tenant != "" || cmd.Flags().Changed("cursor")):
				return usagef("--failing goes without --destination, --tenant and --cursor")
			case len(destinations) == 0 && tenant != "":
				return usagef("--tenant needs a --destination that is a URL")
			case len(destinations) > 0 && (cmd.Flags().Changed("cursor") || cmd.Flags().Changed("limit")):
				return usagef("--destination lists all of its lanes: leave --limit and --cursor out")
			}
			return noArgs(cmd, args)
		},
	}, s)
	cmd.Flags().StringArrayVar(&destinations, "destination", nil, "only the lane of this URL, endpoint (id or uid), q_<queue>, or lane; may be repeated")
	cmd.Flags().BoolVar(&failing, "failing", false, "only the lanes whose attempts fail, the most waiting first")
	cmd.Flags().StringVar(&tenant, "tenant", "", "with a URL: the messages of this tenant (default: messages without a tenant)")
	return cmd
}

func printLanes(out io.Writer, lanes ...wire.LaneState) {
	printTable(out, "LANE\tSTATE\tWHY\tSINCE\tBY\tIN FLIGHT\tWINDOW\tWAITING\tNOT BEFORE\tTENANT\tUID\tTO\tLAST FAILURE", lanes, func(l wire.LaneState) []any {
		return []any{
			l.Lane, l.State, cmp.Or(l.Why, "-"), l.Since, cmp.Or(l.By, "-"), l.InFlight, l.Window, l.Waiting,
			l.Until, cmp.Or(l.Tenant, "-"), cmp.Or(l.UID, "-"), leadsTo(&l), failureText(l.LastFailure),
		}
	})
}

// failureText returns the last failure of a lane with its message.
func failureText(f *wire.LaneFailure) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s: %s", whenText(f.At), visible(f.MessageID), visible(cmp.Or(f.Error, f.Class)))
}

// leadsTo returns the destination of a lane.
func leadsTo(l *wire.LaneState) string {
	switch {
	case l.Queue != "":
		return "queue " + l.Queue
	case l.Kind == "pull":
		return "(pull)"
	}
	return cmp.Or(l.URL, "-")
}

// laneCalls are the calls that change the lanes of a destination: the lane of one tenant,
// or a page of the lanes of all tenants. They return the changed lane.
type laneCalls struct {
	one func(c *client.Client, ctx context.Context, destination, tenant string) (wire.LaneState, error)
	all func(c *client.Client, ctx context.Context, destination, cursor string) (wire.LaneState, error)
}

func newPause(s world) *cobra.Command {
	return laneCalls{(*client.Client).PauseLane, (*client.Client).PauseTenants}.on(&cobra.Command{
		Use:   "pause <destination>",
		Short: "Pause a destination, or all of them",
		Long: `Pauses a destination: its messages are stored and wait. Name it by its lane, by the
id or uid of an endpoint, or by a URL. A URL means its origin, and there the messages
of --tenant, or without it the messages that have no tenant. '*' pauses everything.
Running attempts may finish.

With --all-tenants a URL means the messages of every tenant to its origin. The
command pauses one tenant after the other: if some fail, repeat it. A tenant that
sends there for the first time later is not paused.`,
		Example: `  hookladder pause https://shop.example/hooks --tenant shop_42
  hookladder pause https://shop.example --all-tenants
  hookladder pause '*'`,
	}, s)
}

func newResume(s world) *cobra.Command {
	return laneCalls{(*client.Client).ResumeLane, (*client.Client).ResumeTenants}.on(&cobra.Command{
		Use:   "resume <destination>",
		Short: "Resume a destination, or all of them",
		Long: `Resumes a destination that was paused or disabled. It closes the breaker, and ends a
wait that the receiver requested with Retry-After. '*' reverts only pause '*': a
destination that was paused by its own name stays paused. A URL means one tenant, or
with --all-tenants every tenant that sends to its origin.`,
		Example: `  hookladder resume https://shop.example/hooks --tenant shop_42
  hookladder resume https://shop.example --all-tenants
  hookladder resume shop-42
  hookladder resume '*'`,
	}, s)
}

// on makes cmd run the calls.
func (calls laneCalls) on(cmd *cobra.Command, s world) *cobra.Command {
	var all bool
	var tenant, destination string
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usagef("%s needs one destination: a lane, an endpoint, a URL, or '*' for all; see %s --help", cmd.Name(), cmd.CommandPath())
		}
		if destination = args[0]; all && (tenant != "" || !strings.Contains(destination, "://")) {
			return usagef("--all-tenants needs a URL, and excludes --tenant")
		}
		return nil
	}
	apiCall[wire.LaneState]{
		do: func(cmd *cobra.Command, c *client.Client, _ []string) (wire.LaneState, error) {
			if all {
				return eachTenant(cmd.Context(), c, destination, calls)
			}
			return calls.one(c, cmd.Context(), destination, tenant)
		},
		text: func(out io.Writer, lane wire.LaneState) { printLanes(out, lane) },
		then: func(cmd *cobra.Command, lane wire.LaneState, _ bool) error {
			return reportTenants(cmd, destination, lane.OtherTenants, all)
		},
	}.on(cmd, s)
	cmd.Flags().StringVar(&tenant, "tenant", "", "with a URL: the messages of this tenant (default: messages without a tenant)")
	cmd.Flags().BoolVar(&all, "all-tenants", false, "with a URL: the messages of all tenants to its origin")
	return cmd
}

// eachTenant calls the API for all pages, and returns the lane with the sums of their counts.
func eachTenant(ctx context.Context, c *client.Client, destination string, calls laneCalls) (lane wire.LaneState, err error) {
	var sum wire.OtherTenants
	err = eachPage("", func(cursor string) (*string, error) {
		if lane, err = calls.all(c, ctx, destination, cursor); err != nil {
			return nil, err
		}
		page := cmp.Or(lane.OtherTenants, &wire.OtherTenants{})
		sum.Lanes, sum.Changed, sum.Failed = sum.Lanes+page.Lanes, sum.Changed+page.Changed, sum.Failed+page.Failed
		return page.NextCursor, nil
	})
	if err != nil && sum.Changed > 0 {
		err = fmt.Errorf("%w (lanes of other tenants changed before: %d; repeat the command)", err, sum.Changed)
	}
	lane.OtherTenants = &sum
	return lane, err
}

// reportTenants reports the lanes of other tenants at a URL's origin. It returns an error if
// some of them could not be changed.
func reportTenants(cmd *cobra.Command, destination string, others *wire.OtherTenants, all bool) error {
	switch {
	case others == nil:
	case all && others.Failed > 0:
		return fmt.Errorf("lanes of other tenants: %d changed, %d failed; repeat the command", others.Changed, others.Failed)
	case all:
		fmt.Fprintf(cmd.ErrOrStderr(), "lanes of other tenants changed: %d\n", others.Changed)
	case others.Failed > 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "other tenants may have lanes at this origin: some could not be counted\n")
	case others.Lanes > 0:
		more := ""
		if others.NextCursor != nil {
			more = "at least "
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "other tenants have %s%d lanes at this origin; for all: hookladder %s '%s' --all-tenants\n",
			more, others.Lanes, cmd.Name(), visible(originOf(destination)))
	}
	return nil
}

// originOf returns a URL without the parts that may have a token.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
