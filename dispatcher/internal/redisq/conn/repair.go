package conn

import (
	"context"
	"strings"
)

// ofWrongType are the calls that met a key of another type than ours: a hand
// wrote it. Scripts read before they change anything, so nothing was changed.
func ofWrongType(b *Batch, todo []int) (wrong []int) {
	for _, i := range todo {
		if err := b.Calls[i].Err; err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// repair has the keys of another type that calls met removed, and answers which
// calls have to be made again. What such a key holds is none of ours, and with it
// nothing of its partition would go on.
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
