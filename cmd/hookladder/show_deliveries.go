package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// printDeliveries prints a table of deliveries.
func printDeliveries(out io.Writer, list []wire.Delivery) {
	printTable(out, "ID\tSTATUS\tATTEMPTS\tANSWER\tENDED OR NEXT\tTOPIC\tSUBJECT\tTENANT\tWHY", list, func(d wire.Delivery) []any {
		at := d.EndedAt
		if at.IsZero() {
			at = d.NextAttemptAt
		}
		why := cmp.Or(d.DeadReason, d.WaitingFor)
		if d.LastError != "" {
			why = strings.TrimPrefix(why+": ", ": ") + d.LastError
		}
		return []any{d.ID, d.Status, d.Attempts, statusText(d), at, d.Topic, cmp.Or(d.Subject, "-"), cmp.Or(d.Tenant, "-"), cmp.Or(why, "-")}
	})
}

// statusText is the status of the last response, or a dash.
func statusText(d wire.Delivery) string {
	if d.LastStatusCode == 0 {
		return "-"
	}
	return strconv.Itoa(d.LastStatusCode)
}

// printDeliveriesCSV writes deliveries as CSV. At a terminal it escapes errors, because one with several
// lines would look like several rows.
func printDeliveriesCSV(out io.Writer, list []wire.Delivery, shown bool) {
	for i := range list {
		if d := &list[i]; shown {
			d.LastError = visible(d.LastError)
		}
	}
	_ = wire.WriteDeliveries(out, list) // out is a buffer
}

// printReasons prints a table of the sums by reason, the highest first.
func printReasons(out io.Writer, groups []wire.DeadGroup, more bool) {
	if len(groups) == 0 {
		return
	}
	type sum struct {
		reason       string
		count        int64
		destinations int
		newest       wire.Time
	}
	var sums []*sum
	for _, g := range groups {
		i := slices.IndexFunc(sums, func(s *sum) bool { return s.reason == g.Reason })
		if i < 0 {
			i, sums = len(sums), append(sums, &sum{reason: g.Reason})
		}
		of := sums[i]
		of.count, of.destinations = of.count+g.Count, of.destinations+1
		if g.Newest.After(of.newest.Time) {
			of.newest = g.Newest
		}
	}
	slices.SortStableFunc(sums, func(a, b *sum) int { return cmp.Compare(b.count, a.count) })
	printTable(out, "REASON\tDEAD\tDESTINATIONS\tNEWEST", sums, func(s *sum) []any { return []any{s.reason, s.count, s.destinations, s.newest} })
	if more {
		fmt.Fprintf(out, "of the %d largest groups by destination and reason; there are more\n", len(groups))
	}
	fmt.Fprintln(out)
}

// printDead prints a table of dead deliveries.
func printDead(out io.Writer, list []wire.Delivery) {
	printTable(out, "DELIVERY\tDIED\tREASON\tATTEMPTS\tSTATUS\tTOPIC\tERROR", list, func(d wire.Delivery) []any {
		return []any{d.ID, d.EndedAt, d.DeadReason, d.Attempts, statusText(d), cmp.Or(d.Topic, "-"), cmp.Or(d.LastError, "-")}
	})
}
