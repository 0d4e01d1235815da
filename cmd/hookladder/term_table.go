package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// printTable prints a line of column names, which are separated by tabs, and a line for each row.
// It escapes every text, because a line break would look like another row. Commands print
// to a buffer, so printTable returns no error.
func printTable[T any](out io.Writer, columns string, rows []T, cells func(T) []any) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, columns)
	for _, row := range rows {
		line := cells(row)
		for i, cell := range line {
			switch c := cell.(type) {
			case string:
				line[i] = visible(c)
			case wire.Time:
				line[i] = whenText(c)
			}
		}
		fmt.Fprintf(table, strings.Repeat("%v\t", len(line)-1)+"%v\n", line...)
	}
	_ = table.Flush()
}
