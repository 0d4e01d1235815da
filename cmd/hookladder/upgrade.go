package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hookladder/hookladder/dispatcher/app"
)

// upgradeCheck reports about an upgrade before it.
type upgradeCheck struct {
	Settings []string // warnings about variables
	JSON     bool     // print one object
	Stdout   io.Writer
}

// beforeJSON is the output of --json.
type beforeJSON struct {
	app.UpgradeReport
	Settings []string `json:"settings"`
}

// Run prints the report. It returns an error if something needs attention, or could not be
// examined.
func (b upgradeCheck) Run(ctx context.Context, o app.Options) error {
	r := app.BeforeUpgrade(ctx, o)
	if err := b.print(r); err != nil {
		return err
	}
	attention := len(b.Settings) > 0
	var errs []error
	for _, p := range []app.UpgradePart{r.Store, r.Archive, r.Outbox} {
		attention = attention || p.State == app.UpgradeAttention
		if p.Err != nil {
			errs = append(errs, p.Err)
		}
	}
	switch {
	case len(errs) > 0:
		return fmt.Errorf("the report is not complete: %w", errors.Join(errs...))
	case attention:
		return errors.New("the upgrade needs your attention first")
	}
	return nil
}

func (b upgradeCheck) print(r app.UpgradeReport) error {
	if b.JSON {
		if b.Settings == nil {
			b.Settings = []string{}
		}
		return printJSON(b.Stdout, beforeJSON{r, b.Settings})
	}
	fmt.Fprintf(b.Stdout, "upgrade to %s; nothing is changed by this report\n", r.Version)
	for _, one := range []struct {
		name string
		part app.UpgradePart
	}{{"store", r.Store}, {"archive", r.Archive}, {"outbox", r.Outbox}} {
		fmt.Fprintf(b.Stdout, "%-9s %-12s %s\n", one.name, one.part.State, one.part.Detail)
		for _, c := range one.part.Changes {
			fmt.Fprintf(b.Stdout, "  %s\n", c.What)
			if c.Waits != "" {
				fmt.Fprintf(b.Stdout, "    waits meanwhile: %s\n", c.Waits)
			}
			if c.Final != "" {
				fmt.Fprintf(b.Stdout, "    can't be rolled back: %s; only hookladder doctor --upgrade makes it\n", c.Final)
			}
		}
	}
	if r.Store.State != app.UpgradeNotExamined && len(r.Instances) == 0 {
		fmt.Fprintln(b.Stdout, "instances none runs")
	}
	for _, i := range r.Instances {
		version := i.Version
		if version == "" {
			version = "an unknown version"
		}
		fmt.Fprintf(b.Stdout, "instance  %s runs %s\n", i.Name, version)
	}
	for _, s := range b.Settings {
		fmt.Fprintf(b.Stdout, "settings  %s\n", s)
	}
	back := "possible: stop this version, and start the older one on the same data"
	if !r.Rollback {
		back = "not possible after these changes: back up the data before"
	}
	_, err := fmt.Fprintf(b.Stdout, "rollback  %s\n", back)
	return err
}

// runUpgrade makes the changes that an instance does not make.
func runUpgrade(ctx context.Context, o app.Options, out io.Writer) error {
	before, after, err := app.Upgrade(ctx, o)
	switch {
	case err != nil:
		return err
	case before == after:
		_, err = fmt.Fprintf(out, "archive: migration %d, nothing to do\n", after)
	default:
		_, err = fmt.Fprintf(out, "archive: upgraded from migration %d to %d\n", before, after)
	}
	return err
}
