package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
)

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
