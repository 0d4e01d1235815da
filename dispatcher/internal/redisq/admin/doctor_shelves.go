package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// ofTenant reports whether a list is one tenant's part of a queue.
func ofTenant(name string) bool {
	_, is := read.ShelfLane(name)
	return is
}

// shelves checks the entries of the lists of deliveries. Missing entries were found by
// the walk through the deliveries before.
func (d *doctor) shelves(ctx context.Context, n int) error {
	for _, name := range d.rings[n][keys.Shelf] {
		if ofTenant(name) {
			if err := d.judgeShelves(ctx, n, keys.Find(keys.Shelf), name); err != nil {
				return err
			}
		}
	}
	for _, hash := range d.rings[n][keys.Tenant] {
		if err := d.judgeShelves(ctx, n, keys.Find(keys.Tenant), hash); err != nil {
			return err
		}
	}
	for _, digits := range d.rings[n][keys.Digits] { // before the subjects that they find
		if err := d.judgeShelves(ctx, n, keys.Find(keys.Digits), digits); err != nil {
			return err
		}
	}
	for _, hash := range d.rings[n][keys.Subject] { // before the index of subjects
		if err := d.judgeShelves(ctx, n, keys.Find(keys.Subject), hash); err != nil {
			return err
		}
	}
	if err := d.judgeShelves(ctx, n, keys.Find(keys.Subjects), ""); err != nil {
		return err
	}
	return d.judgeShelves(ctx, n, keys.Find(keys.Owners), "")
}

// judgeShelves checks the entries of one key, and removes wrong ones.
func (d *doctor) judgeShelves(ctx context.Context, n int, k keys.Kind, of string) error {
	for page, err := range d.pages(ctx, n, k, of, walkPage) {
		if err != nil {
			return err
		}
		names := make([]string, len(page))
		for i, e := range page {
			names[i] = e.name
		}
		if err := d.judgeNames(ctx, n, strings.Trim(k.Name, ":"), of, names); err != nil {
			return err
		}
	}
	return nil
}

// judgeNames checks some names with the script.
func (d *doctor) judgeNames(ctx context.Context, n int, kind, of string, names []string) error {
	for some := range slices.Chunk(names, walkPage) {
		args := []any{conn.Flag(d.e.Fix), kind, of}
		for _, name := range some {
			args = append(args, name)
		}
		a, err := d.call(ctx, d.s.scripts.shelves, n, args...)
		if err != nil {
			return err
		}
		if err := readFaults(a, func(name, fault, detail string) {
			if kind != "deliveries" && kind != "subjects" {
				detail = strings.TrimSpace(kind + " " + of)
			}
			d.report(n, name, fault, detail, d.e.Fix)
		}); err != nil {
			return err
		}
	}
	return nil
}
