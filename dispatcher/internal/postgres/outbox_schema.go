package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	tableOf    = regexp.MustCompile(`(?s)create table if not exists (hookladder_\w+) \(\n(.*?)\n\)`)
	columnOf   = regexp.MustCompile(`(?m)^    (\w+) `)
	functionOf = regexp.MustCompile(`(?s)create or replace function (hookladder_\w+)\(.*?as \$\$(.*?)\$\$`)
)

// Differences compares the tables and functions of the outbox with a schema. It returns a clause
// for each one that is missing or different, and writes nothing.
func (o *Outbox) Differences(ctx context.Context, schema string) (found []string, err error) {
	conn, err := o.connect(ctx, &o.work)
	if err != nil {
		return nil, err
	}
	for _, table := range tableOf.FindAllStringSubmatch(schema, -1) {
		have, err := queryTexts(ctx, conn, `select attname::text from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`, table[1])
		if err != nil {
			return nil, err
		}
		if len(have) == 0 {
			found = append(found, "the table "+table[1]+" is missing")
			continue
		}
		for _, column := range columnOf.FindAllStringSubmatch(table[2], -1) {
			if !slices.Contains(have, column[1]) {
				found = append(found, fmt.Sprintf("the table %s has no column %s", table[1], column[1]))
			}
		}
	}
	for _, function := range functionOf.FindAllStringSubmatch(schema, -1) {
		have, err := queryTexts(ctx, conn, `select prosrc from pg_proc where proname = $1 and pg_function_is_visible(oid)`, function[1])
		if err != nil {
			return nil, err
		}
		switch {
		case len(have) == 0:
			found = append(found, "the function "+function[1]+" is missing")
		case !slices.ContainsFunc(have, func(text string) bool { return strings.TrimSpace(text) == strings.TrimSpace(function[2]) }):
			found = append(found, "the function "+function[1]+" is another one")
		}
	}
	return found, nil
}

// queryTexts runs a query of one column.
func queryTexts(ctx context.Context, conn *pgx.Conn, query, of string) ([]string, error) {
	rows, err := conn.Query(ctx, query, of)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
