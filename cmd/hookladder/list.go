package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// listCommand is a command that lists a page of the API: as a table, as JSON, or deliveries also as
// CSV.
type listCommand[P any] struct {
	read  func(cmd *cobra.Command, c *client.Client, args []string, page pageFlags) (P, error)
	next  func(page P) *string // returns the cursor of the next page
	table func(out io.Writer, page P)
	json  func(out io.Writer, page P) error                                    // nil: print the response unchanged
	then  func(cmd *cobra.Command, page P, flags pageFlags, asJSON bool) error // runs after the list was printed; may be nil

	// deliveries returns the fields that every page of deliveries has. Such a list reads pages up
	// to its limit, and has --csv. It is nil for other lists.
	deliveries func(page *P) (list *[]wire.Delivery, lookedAt *int)
}

// on makes cmd list, and adds the flags of a list to cmd.
func (l listCommand[P]) on(cmd *cobra.Command, s world) *cobra.Command {
	var p pageFlags
	var asCSV, shown bool
	p.add(cmd, l.deliveries != nil)
	if args := cmd.Args; l.deliveries != nil {
		cmd.Flags().BoolVar(&asCSV, "csv", false, "print them as CSV, with a header line")
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if asCSV && cmd.Flags().Changed("json") {
				return usagef("--csv and --json exclude each other")
			}
			return args(cmd, given)
		}
	}
	return apiCall[P]{
		do: func(cmd *cobra.Command, c *client.Client, args []string) (P, error) {
			shown = isTerminal(cmd.OutOrStdout())
			if l.deliveries == nil {
				return l.read(cmd, c, args, p)
			}
			return l.readAll(cmd, c, args, p)
		},
		text: func(out io.Writer, page P) {
			if asCSV {
				list, _ := l.deliveries(&page)
				printDeliveriesCSV(out, *list, shown)
				return
			}
			l.table(out, page)
		},
		json: l.json,
		then: func(cmd *cobra.Command, page P, asJSON bool) error {
			if l.then != nil {
				if err := l.then(cmd, page, p, asJSON); err != nil {
					return err
				}
			}
			if !asJSON { // the JSON has the cursor
				printNext(cmd.ErrOrStderr(), l.next(page))
			}
			return nil
		},
	}.on(cmd, s)
}

// readAll reads pages up to the limit, and returns the last one with the deliveries of all.
func (l listCommand[P]) readAll(cmd *cobra.Command, c *client.Client, args []string, p pageFlags) (all P, err error) {
	list, examined := []wire.Delivery{}, 0
	err = p.read(func(limit int, cursor string) (int, *string, error) {
		page, err := l.read(cmd, c, args, pageFlags{limit, cursor})
		data, lookedAt := l.deliveries(&page)
		entries := len(*data)
		list, examined = append(list, *data...), examined+*lookedAt
		*data, *lookedAt = list, examined
		all = page
		return entries, l.next(page), err
	})
	return all, err
}

// The limits of one command. It keeps all entries in memory, some KiB each, because it prints
// them together. A filter with few matches returns short pages.
const (
	mostListed = 100_000
	mostPages  = 1000
)

// pageFlags are the flags of every list.
type pageFlags struct {
	limit  int
	cursor string
}

// add adds the flags. many: the command reads page after page, up to the limit.
func (p *pageFlags) add(cmd *cobra.Command, many bool) {
	usage := fmt.Sprintf("the most entries of a page, up to %d", client.MaxPage)
	if many {
		usage = fmt.Sprintf("the most deliveries to list, up to %d", mostListed)
	}
	cmd.Flags().IntVar(&p.limit, "limit", 50, usage)
	cmd.Flags().StringVar(&p.cursor, "cursor", "", "the cursor of the next page, as the previous page printed it")
}

// read reads pages until they have as many entries as the limit, or there are no more. readPage
// returns the number of entries of a page, and the cursor of the next page.
func (p *pageFlags) read(readPage func(limit int, cursor string) (entries int, next *string, err error)) error {
	if p.limit < 1 || p.limit > mostListed {
		return usagef("--limit must be 1 to %d", mostListed)
	}
	left, pages := p.limit, 0
	return eachPage(p.cursor, func(cursor string) (*string, error) {
		entries, next, err := readPage(min(left, client.MaxPage), cursor)
		left -= entries
		if pages++; left <= 0 || pages == mostPages {
			next = nil
		}
		return next, err
	})
}

// eachPage reads all pages, starting at a cursor. readPage returns the cursor of the next page.
func eachPage(cursor string, readPage func(cursor string) (next *string, err error)) error {
	for {
		next, err := readPage(cursor)
		if err != nil || next == nil {
			return err
		}
		cursor = *next
	}
}

// printNext prints the command for the next page. It prints to standard error, because this line
// is not part of the list.
func printNext(out io.Writer, next *string) {
	if next != nil {
		fmt.Fprintf(out, "more with --cursor %s\n", *next)
	}
}

// filterFlags select deliveries.
type filterFlags struct {
	client.Filter
	span spanFlags
}

// jobFilters are the filters that every job has as flags.
var jobFilters = []string{"destination", "topic", "tenant", "subject", "dead_reason"}

// add adds the flags of all filters, or of those with these names.
func (f *filterFlags) add(cmd *cobra.Command, span string, names ...string) {
	addFilters(cmd, &f.Filter, names...)
	f.span.add(cmd, span)
}

// read reads the times of the flags, once for all pages: an age would be another time later.
func (f *filterFlags) read() (err error) {
	f.Since, f.Until, err = f.span.read()
	return err
}

// addFilters adds flags for the fields of a filter, from their tags in the client: all of
// them, or those with these names. The flags of pages and of times are not among them.
func addFilters(cmd *cobra.Command, filter any, names ...string) {
	flags, v := cmd.Flags(), reflect.ValueOf(filter).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name, usage, words := tag.Get("query"), tag.Get("doc"), dispatcher.WordLists()[tag.Get("words")]
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		usage, _, _ = strings.Cut(usage, ". ") // the page of the API has the rest
		usage = strings.ToLower(usage[:min(1, len(usage))]) + strings.TrimSuffix(usage[min(1, len(usage)):], ".")
		if name = strings.ReplaceAll(name, "_", "-"); len(words) > 0 && len(words) < 10 {
			usage += ": " + anyOf(words)
		}
		switch to := v.Field(i).Addr().Interface().(type) {
		case *[]string:
			flags.StringArrayVar(to, name, nil, usage+"; may be repeated")
		case *[]int:
			flags.IntSliceVar(to, name, nil, usage+"; may be repeated")
		case *bool:
			flags.BoolVar(to, name, false, usage)
		case *string:
			if name == "cursor" {
				continue
			}
			flags.StringVar(to, name, "", usage)
		default:
			continue
		}
		if len(words) > 0 {
			completes(cmd, name, words...)
		}
	}
}
