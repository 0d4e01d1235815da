package shelf

import (
	"cmp"
	"context"
	_ "embed" // the script
	"slices"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/subjects.lua
var subjectsSrc string

// Bounds of the messages that one call finds by their subjects. One call of the script looks
// for tokensAtOnce tokens: it answers 4,000 ids at most, which are 600 KiB, in 2 ms.
const (
	subjectsMost = 1000
	tokensAtOnce = 4
)

// Subjects names the messages whose subjects are found by the same token as one of these, the
// newest first, at most 1,000. more reports that there are older ones. All partitions are read
// in one round trip.
func (r *Reader) Subjects(ctx context.Context, subjects []string) (ids []string, more bool, err error) {
	tokens := make([]any, 0, len(subjects))
	for _, subject := range slices.Compact(slices.Sorted(slices.Values(subjects))) {
		if token := r.conn.SubjectHash(subject); token != "" && !slices.Contains(tokens, any(token)) {
			tokens = append(tokens, token)
		}
	}
	if len(tokens) == 0 {
		return nil, false, nil
	}
	var calls []conn.Call
	for some := range slices.Chunk(tokens, tokensAtOnce) {
		calls = append(calls, r.conn.Everywhere(append([]any{subjectsMost + 1}, some...))...)
	}
	type one struct {
		id string
		at time.Time
	}
	newest := map[string]time.Time{} // one message may lie in several partitions
	for _, a := range r.conn.Send(ctx, conn.Batch{Script: r.subjects, Calls: calls}) {
		a.Hint()
		for a.More() {
			id, at := a.Text(), a.Time()
			if at.After(newest[id]) {
				newest[id] = at
			}
		}
		if a.Err != nil {
			return nil, false, r.conn.InPartition(a.Partition, a.Err)
		}
	}
	var all []one
	for id, at := range newest {
		all = append(all, one{id, at})
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.id, b.id)) })
	for _, o := range all[:min(len(all), subjectsMost)] {
		ids = append(ids, o.id)
	}
	return ids, len(all) > subjectsMost, nil
}
