package main

import (
	"fmt"
	"io"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/settings"
	"github.com/hookladder/hookladder/dispatcher/app"
)

// phaseTexts describe the phases of a repartition.
var phaseTexts = map[string]string{
	"begin": "check for 7 s that no instance is alive",
	"ids":   "copy known ids",
	"move":  "move the data of destinations",
	"count": "count again",
}

// printStep prints one step of a repartition.
func printStep(out io.Writer, step app.RepartitionStep) {
	if step.Partition < 0 {
		fmt.Fprintln(out, phaseTexts[step.Phase])
		return
	}
	if step.Phase == "move" {
		fmt.Fprintf(out, "  partition %d of %d: %s messages, %s deliveries so far\n", step.Partition+1, step.Of,
			commas(step.Moved.Messages), commas(step.Moved.Deliveries))
	}
}

// printRepartitioned prints the result of a repartition.
func printRepartitioned(out io.Writer, done app.Repartitioned, dry bool, s settings.Settings) error {
	verb := "moved"
	switch {
	case done.From == done.To:
		_, err := fmt.Fprintf(out, "project %s has %d partitions already\n", s.Project, done.To)
		return err
	case dry:
		verb = "would move"
	case done.Again:
		verb = "continued and moved"
	}
	_, err := fmt.Fprintf(out, "%s project %s from %d to %d partitions: %s messages, %s deliveries, %s lanes, %s ids\n",
		verb, s.Project, done.From, done.To, commas(done.Moved.Messages), commas(done.Moved.Deliveries),
		commas(done.Moved.Lanes), commas(done.Moved.IDs))
	if err == nil && done.Reaped > 0 {
		_, err = fmt.Fprintf(out, "%s deliveries were still leased by dead instances\n", commas(done.Reaped))
	}
	if n := done.Moved.Forgotten; err == nil && n > 0 {
		_, err = fmt.Fprintf(out, "%s ids were dropped: DEDUP_MAX=%d has no room for them in every partition\n", commas(n), s.DedupMax)
	}
	if err == nil && done.Refused != nil {
		_, err = fmt.Fprintf(out, "now it would refuse: %v\n", done.Refused)
	}
	if err == nil && !dry && s.Partitions != 0 && s.Partitions != done.To {
		_, err = fmt.Fprintf(out, "now set PARTITIONS=%d\n", done.To)
	}
	return err
}
