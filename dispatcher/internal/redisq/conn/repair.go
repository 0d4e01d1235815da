package conn

import (
	"context"
	"strings"
)

// ofWrongType are the calls that met a key of another type than ours, which a
// person wrote. Scripts read before they change anything, so nothing was changed.
func ofWrongType(b *Batch, todo []int) (wrong []int) {
	for _, i := range todo {
		if err := b.Calls[i].Err; err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// repair removes the keys of another type that calls met, and answers which calls
// have to be made again. Such a key holds nothing of ours, and it would stop its
// whole partition.
func (c *Client) repair(ctx context.Context, b *Batch, wrong []int) (again []int) {
	if c.options.Repair == nil {
		return nil
	}
	removed := map[int]bool{}
	for _, i := range wrong {
		n := b.Calls[i].Partition
		if _, done := removed[n]; !done {
			removed[n] = c.options.Repair(ctx, n)
		}
		if removed[n] {
			again = append(again, i)
		}
	}
	return again
}
