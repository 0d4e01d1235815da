package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/ladder"
)

// Limits of one command. It prints all entries together, so it keeps them in memory, some
// KiB each. A filter that matches little returns short pages.
const (
	mostListed  = 100_000
	mostPages   = 1000
	mostOfAPage = 500
)

// pageFlags are the flags of every list.
type pageFlags struct {
	limit  int
	cursor string
	many   bool // the command reads page after page, up to the limit
}

func (p *pageFlags) add(cmd *cobra.Command) {
	usage := fmt.Sprintf("the most entries of a page, up to %d", mostOfAPage)
	if p.many {
		usage = fmt.Sprintf("the most deliveries to list, up to %d", mostListed)
	}
	cmd.Flags().IntVar(&p.limit, "limit", 50, usage)
	cmd.Flags().StringVar(&p.cursor, "cursor", "", "where the list goes on, as the page before says")
}

// read reads pages until they have as many entries as the limit, or there are no more.
// readPage returns how many entries a page has, and the cursor of the next page.
func (p *pageFlags) read(readPage func(limit int, cursor string) (entries int, next *string, err error)) error {
	if p.limit < 1 || p.limit > mostListed {
		return usagef("--limit must be 1 to %d", mostListed)
	}
	left, pages := p.limit, 0
	return eachPage(p.cursor, func(cursor string) (*string, error) {
		entries, next, err := readPage(min(left, mostOfAPage), cursor)
		left -= entries
		if pages++; left <= 0 || pages == mostPages {
			next = nil
		}
		return next, err
	})
}

// eachPage reads all pages from a cursor on. readPage returns the cursor of the next page.
func eachPage(cursor string, readPage func(cursor string) (next *string, err error)) error {
	for {
		next, err := readPage(cursor)
		if err != nil || next == nil {
			return err
		}
		cursor = *next
	}
}

// printNext says how to list the next page. Commands print it to standard error, because it
// is not part of the list.
func printNext(out io.Writer, next *string) {
	if next != nil {
		fmt.Fprintf(out, "more with --cursor %s\n", *next)
	}
}

// spanFlags choose a span of time.
type spanFlags struct{ since, until string }

func (f *spanFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.since, "since", "", what+" at this time or later, as 2026-01-31T12:00:00Z; or so long ago, as 36h or 7d")
	cmd.Flags().StringVar(&f.until, "until", "", what+" before this time; or longer ago than that")
}

func (f *spanFlags) read() (since, until time.Time, err error) {
	if since, err = timeFlag("since", f.since); err == nil {
		until, err = timeFlag("until", f.until)
	}
	return since, until, err
}

// timeFlag reads a time, or how long ago it was; empty: none.
func timeFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	ago, err := ladder.ParseDuration(text)
	if err != nil {
		return time.Time{}, usagef("--%s must be a time as 2026-01-31T12:00:00Z, or how long ago it was as 24h or 7d, not %q", name, text)
	}
	return time.Now().Add(-ago), nil
}
