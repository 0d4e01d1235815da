package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/explain"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func newGet(s world) *cobra.Command {
	return apiCall[wire.MessageView]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.MessageView, error) {
			return c.Message(cmd.Context(), args[0])
		},
		text: printMessage,
		json: printMessageJSON,
	}.on(&cobra.Command{
		Use:   "get <id>",
		Short: "Show a message, its deliveries and their attempts",
		Long: `Shows a message and its deliveries. A delivery that failed shows its newest 32
attempts, and the beginning of the receiver's last responses. With --json it prints
the response of the API, with the body byte for byte.`,
		Example: `  hookladder get order_17
  hookladder get order_17 --json`,
		Args: oneID,
	}, s)
}

func newWhy(s world) *cobra.Command {
	var destination string
	cmd := apiCall[whyAnswer]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (whyAnswer, error) {
			return askWhy(cmd.Context(), c, args[0], destination)
		},
		text: func(out io.Writer, a whyAnswer) {
			for _, d := range a.Deliveries {
				fmt.Fprintln(out, visible(d.Why))
			}
		},
	}.on(&cobra.Command{
		Use:   "why <id>",
		Short: "Explain in a sentence why a delivery waits or died, and which command helps",
		Long: `Explains in a sentence why each delivery of a message waits, or why it ended, and which
command helps. It changes nothing. The exit code is 3 if there is no such message, or if
it has no delivery to --destination.`,
		Example: `  hookladder why order_17
  hookladder why order_17 --destination https://shop.example/hooks
  hookladder why order_17 --json`,
		Args: oneID,
	}, s)
	cmd.Flags().StringVar(&destination, "destination", "", "only the delivery to this URL, endpoint, q_<queue> or lane")
	return cmd
}

func newCancel(s world) *cobra.Command {
	var destination string
	cmd := apiCall[wire.Deliveries]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (wire.Deliveries, error) {
			list, err := c.Cancel(cmd.Context(), args[0], destination)
			return wire.Deliveries{ID: args[0], Deliveries: list}, err
		},
		text: func(out io.Writer, cancelled wire.Deliveries) {
			for _, d := range cancelled.Deliveries {
				printDelivery(out, d)
			}
		},
		json: printCancelledJSON,
	}.on(&cobra.Command{
		Use:   "cancel [<id>]",
		Short: "Cancel a message's unfinished deliveries, or all that match filters",
		Long: `Cancels the unfinished deliveries of a message: no attempt is started any more. A
running attempt can't be stopped.

Without an id it starts a job, which cancels the unfinished deliveries that match the
filters. It shows how many match, and asks. A script has to pass --yes.`,
		Example: `  hookladder cancel order_17
  hookladder cancel --topic 'cart.*' --tenant shop
  hookladder cancel --status scheduled --all --dry-run`,
	}, s)
	return byFilter(cmd, s, &jobCommand{kind: client.JobCancel, verb: "Cancel"}, &destination)
}

// byFilter makes a command work on one message, or without an id on all deliveries that match its
// filters, for which it starts a job.
func byFilter(cmd *cobra.Command, s world, j *jobCommand, destination *string) *cobra.Command {
	one := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && (cmd.Flags().NFlag() > 0) {
			return nil
		}
		return oneID(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f := &j.filters
		if len(args) == 1 {
			if len(f.Destinations) > 1 || len(f.Topics)+len(f.Tenants)+len(f.Subjects)+len(f.Reasons)+len(f.Statuses) > 0 || f.Failed {
				return usagef("%s accepts the id of a message with one --destination at most, or filters without an id", cmd.Name())
			}
			*destination = strings.Join(f.Destinations, "")
			return one(cmd, args)
		}
		to := clientFlags{vars: s.vars(), err: s.err}
		to.server, _ = cmd.Flags().GetString("server")
		to.keyFile, _ = cmd.Flags().GetString("key-file")
		asJSON, _ := cmd.Flags().GetBool("json")
		c, err := to.client()
		if err != nil {
			return err
		}
		return j.run(cmd, s, c, asJSON)
	}
	j.filters.add(cmd, "only deliveries that ended, or are due,", append(jobFilters, "status", "failed")...)
	j.add(cmd)
	return cmd
}

// retryAnswer is the result of a retry, and its error if it started no attempt.
type retryAnswer struct {
	wire.Retried
	failed error
}

func newRetry(s world) *cobra.Command {
	var destination string
	j := &jobCommand{kind: client.JobRetry, verb: "Retry"}
	cmd := apiCall[retryAnswer]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (retryAnswer, error) {
			list, err := retry(cmd.Context(), c, args[0], destination, j.request.All)
			if len(list) == 0 {
				return retryAnswer{}, err
			}
			return retryAnswer{wire.Retried{ID: args[0], Deliveries: list}, err}, nil
		},
		text: func(out io.Writer, a retryAnswer) { printRetried(out, a.Deliveries) },
		json: func(out io.Writer, a retryAnswer) error { return printRetriedJSON(out, a.Retried) },
		then: func(_ *cobra.Command, a retryAnswer, _ bool) error { return a.failed },
	}.on(&cobra.Command{
		Use:   "retry [<id>]",
		Short: "Retry a message now, or all deliveries that match filters",
		Long: `Retries the deliveries of a message now, if pause, breaker, rate and limit allow it, and
says which ones it skips and why. A waiting delivery gets an additional attempt. If it
fails, the delivery waits until the same time as before. A dead or cancelled delivery
starts a new ladder. A successful delivery is skipped, unless --destination names it or
--all is set. The exit code is 0 if at least one delivery is retried, and 1 if none is.

Without an id it starts a job, which retries the deliveries that match the filters, the
oldest first: dead ones, or the ones with another --status. A delivery that dies again is
not sent again by the same job. The job adds only some deliveries to a destination at a
time, so new messages go first. At a terminal it shows how many match, asks, and shows
the progress, and the job continues when this command ends. A script has to pass --yes.
It gets the job, and "hookladder jobs show" prints its progress.

After an outage, --status retrying sends the deliveries that wait for their next attempt.
--probe first sends one delivery to each destination. An open breaker lets one attempt
through after its wait; --resume closes it first.`,
		Example: `  hookladder retry order_17
  hookladder retry order_17 --destination https://shop.example/hooks
  hookladder retry order_17 --all
  hookladder retry --destination shop-42 --dead-reason gone --rate 200/s
  hookladder retry --status retrying --tenant shop --probe --rate 200/s
  hookladder retry --status delivered --since 24h --destination shop-42 --dry-run`,
	}, s)
	return byFilter(cmd, s, j, &destination)
}

// retry calls the API for attempts. If the error has the deliveries, retry returns them too.
func retry(ctx context.Context, c *client.Client, id, destination string, all bool) (list []wire.RetriedDelivery, err error) {
	if all && destination == "" {
		list, err = c.Resend(ctx, id)
	} else {
		list, err = c.Retry(ctx, id, destination)
	}
	var left *client.Problem
	if errors.As(err, &left) {
		list = left.Deliveries
	}
	return list, err
}

// oneID accepts one argument, the id of a message.
func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return usagef("%s needs the id of one message; see %s --help", cmd.Name(), cmd.CommandPath())
	}
	return nil
}

// whyAnswer has a sentence for each delivery of a message.
type whyAnswer struct {
	ID         string        `json:"id"`
	Deliveries []deliveryWhy `json:"deliveries"`
}

// deliveryWhy is the state of one delivery, and its sentence.
type deliveryWhy struct {
	ID          string `json:"id"`
	Destination string `json:"destination"`
	Status      string `json:"status"`
	Why         string `json:"why"`
}

// lanesAtOnce is the highest number of destinations in one call of the API.
const lanesAtOnce = 100

// secretsAsked is the highest number of endpoints whose secret's fingerprint is asked for: each is
// a call. A sentence does without.
const secretsAsked = 20

// askWhy queries a message and its lanes, and returns an explanation of each delivery, or only of
// the one to destination. It returns dispatcher.ErrNoDelivery if there is none.
func askWhy(ctx context.Context, c *client.Client, id, destination string) (whyAnswer, error) {
	m, err := c.Message(ctx, id)
	if err != nil {
		return whyAnswer{}, err
	}
	if destination != "" {
		if m.Deliveries, err = deliveriesTo(ctx, c, m, destination); err != nil {
			return whyAnswer{}, err
		}
	}
	lanes, err := lanesOf(ctx, c, m.Deliveries)
	if err != nil {
		return whyAnswer{}, err
	}
	var instances wire.InstancePage
	if slices.ContainsFunc(m.Deliveries, func(d wire.Delivery) bool { return d.WaitingFor == "permits" }) {
		if instances, err = c.Instances(ctx, 0, ""); err != nil {
			return whyAnswer{}, err
		}
	}
	secrets := map[string]string{} // fingerprints, by endpoint
	for _, d := range m.Deliveries {
		refused := d.LastStatusCode == http.StatusUnauthorized || d.LastStatusCode == http.StatusForbidden
		if lane := lanes[d.Destination]; refused && lane != nil && lane.Endpoint != "" && len(secrets) < secretsAsked {
			e, err := c.Endpoint(ctx, lane.Endpoint)
			if err != nil && !errors.Is(err, client.ErrNotFound) {
				return whyAnswer{}, err
			}
			secrets[d.Destination] = e.SecretFingerprint
		}
	}
	a := whyAnswer{ID: m.ID, Deliveries: make([]deliveryWhy, len(m.Deliveries))}
	for i, d := range m.Deliveries {
		facts := explain.Facts{Delivery: d, Lane: lanes[d.Destination], Queue: m.Queue, Expires: m.ExpiresAt, Content: m.ContentType, Secret: secrets[d.Destination], Instances: instances.Data, Now: time.Now()}
		a.Deliveries[i] = deliveryWhy{ID: d.ID, Destination: d.Destination, Status: d.Status, Why: explain.Sentence(facts)}
	}
	return a, nil
}

// deliveriesTo returns the delivery to a lane, an endpoint, or a URL of the message's tenant.
func deliveriesTo(ctx context.Context, c *client.Client, m wire.MessageView, destination string) ([]wire.Delivery, error) {
	to := []string{destination}
	if !slices.ContainsFunc(m.Deliveries, func(d wire.Delivery) bool { return d.Destination == destination }) {
		tenant := ""
		if strings.Contains(destination, "://") {
			tenant = m.Tenant
		}
		page, err := c.LanesOf(ctx, tenant, destination)
		if err != nil && !errors.Is(err, client.ErrInvalid) { // an unknown name has no delivery
			return nil, err
		}
		for _, lane := range page.Data {
			to = append(to, lane.Lane)
		}
	}
	list := slices.DeleteFunc(m.Deliveries, func(d wire.Delivery) bool { return !slices.Contains(to, d.Destination) })
	if len(list) == 0 && m.Incomplete {
		return nil, fmt.Errorf("message %s: %w: it may have a delivery to %s that Redis has no more, so ask again later", m.ID, dispatcher.ErrArchiveAway, destination)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("message %s: %w: `hookladder get %s` shows its deliveries", m.ID, dispatcher.ErrNoDelivery, m.ID)
	}
	return list, nil
}

// lanesOf returns the lanes of the deliveries.
func lanesOf(ctx context.Context, c *client.Client, list []wire.Delivery) (map[string]*wire.LaneState, error) {
	var names []string
	for _, d := range list {
		names = append(names, d.Destination)
	}
	lanes := make(map[string]*wire.LaneState, len(names))
	for some := range slices.Chunk(names, lanesAtOnce) {
		page, err := c.LanesOf(ctx, "", some...)
		if err != nil {
			return nil, err
		}
		for i, lane := range page.Data {
			lanes[lane.Lane] = &page.Data[i]
		}
	}
	return lanes, nil
}
