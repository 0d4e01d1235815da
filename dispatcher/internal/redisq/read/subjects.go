package read

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Limits on the messages that one call finds by their subjects. One call of the
// script searches for tokensAtOnce tokens. It returns 4,000 ids at most, which
// are 600 KiB, in 2 ms. Last digits may find 10,000 ids, in 20 ms.
const (
	subjectsMost  = 1000
	subjectsOfAMs = 5000 // if one ms has more than 1,000, in batches of 1,000
	tokensAtOnce  = 4
)

// SubjectMessage is a message with a subject of the filter.
type SubjectMessage struct {
	ID string
	At time.Time // of its acceptance

	partitions []int // the partitions that have it
}

// Subjects returns the messages whose subjects have the same token as one of
// these subjects, or a token with the last four of some digits, and that were
// accepted by a time. Zero is any time. The newest come first, at most 1,000, or
// 5,000 of one ms. more reports that there are older messages. Then the result
// has all messages of each of its ms. If one ms has more, or digits find too
// many, the error is ErrMore. All partitions are read in one round trip.
func (r *ShelfReader) Subjects(ctx context.Context, subjects, ends []string, by time.Time) (found []SubjectMessage, more bool, err error) {
	tokens := make([]any, 0, len(subjects)+len(ends))
	for _, digits := range ends {
		if last := dispatcher.LastDigits(digits); last != "" && !slices.Contains(tokens, any(last)) {
			tokens = append(tokens, last)
		}
	}
	for _, subject := range slices.Compact(slices.Sorted(slices.Values(subjects))) {
		if token := r.conn.SubjectHash(subject); token != "" && !slices.Contains(tokens, any(token)) {
			tokens = append(tokens, token)
		}
	}
	if len(tokens) == 0 {
		return nil, false, nil
	}
	for most := subjectsMost; ; most = subjectsOfAMs {
		if found, err = r.newestAbout(ctx, tokens, by, most); err != nil || len(found) <= most {
			return found, false, err
		}
		found = found[:most]
		last := found[most-1].At // others of this ms may be missing
		whole := slices.IndexFunc(found, func(m SubjectMessage) bool { return m.At.Equal(last) })
		if whole > 0 {
			return found[:whole], true, nil
		}
		if most == subjectsOfAMs {
			return nil, false, fmt.Errorf("more than %d messages of one ms have this subject: %w", most, ErrMore)
		}
	}
}

// newestAbout returns the newest messages with some tokens, from each partition
// that has any. If there are more than most, it returns more.
func (r *ShelfReader) newestAbout(ctx context.Context, tokens []any, by time.Time, most int) ([]SubjectMessage, error) {
	var calls []conn.Call
	for some := range slices.Chunk(tokens, tokensAtOnce) {
		calls = append(calls, r.conn.Everywhere(append([]any{most + 1, millis(by)}, some...))...)
	}
	all := map[string]SubjectMessage{}
	for _, a := range r.conn.Send(ctx, conn.Batch{Script: subjectsScript, Calls: calls}) {
		a.Hint()
		for a.More() {
			one := SubjectMessage{ID: a.Text(), At: a.Time()}
			if one.ID == "" {
				return nil, fmt.Errorf("too many messages have numbers with these last digits: %w", ErrMore)
			}
			if old := all[one.ID]; old.At.After(one.At) {
				one.At = old.At
			}
			one.partitions = append(all[one.ID].partitions, a.Partition) // a message has one subject, so each partition has it once
			all[one.ID] = one
		}
		if a.Err != nil {
			return nil, r.conn.InPartition(a.Partition, a.Err)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b SubjectMessage) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
	}), nil
}

// messagesAtOnce is the number of messages that one call of the script reads.
const messagesAtOnce = 4

// findMessages finds the messages that a filter with subjects reads instead of
// shelves, from a place on. There may be more of them than a call finds. Then
// the shelves are read instead, if the filter names tenants or destinations.
func (r *ShelfReader) findMessages(ctx context.Context, q *query, from place) (err error) {
	f := &q.f
	subjects, ends := f.Subjects, []string(nil)
	if len(subjects) == 0 {
		subjects = f.SubjectLike
	}
	if len(subjects) == 0 {
		ends = f.SubjectEnds
	}
	if q.bySubject = f.OfSubject(); !q.bySubject {
		return nil
	}
	by := from.At
	if from.ID == "" && !by.IsZero() {
		by = by.Add(-time.Millisecond)
	}
	if q.messages, q.older, err = r.Subjects(ctx, subjects, ends, by); q.older && f.OfOwner() {
		q.bySubject, q.messages, q.older = false, nil, false
	}
	early := func(m SubjectMessage) bool {
		return !f.Since.IsZero() && f.Order == dispatcher.OrderAccepted && m.At.Before(f.Since)
	}
	if at := slices.IndexFunc(q.messages, early); at >= 0 {
		q.messages, q.older = q.messages[:at], false
	}
	return err
}

// window returns the messages that a page reads next: the wanted number, and
// all messages of their last ms. bound is their end. It is nil if there is no
// older message.
func (q *query) window(from place, wanted int) (some []SubjectMessage, bound *place) {
	first := sort.Search(len(q.messages), func(i int) bool {
		at := q.messages[i].At
		return from == (place{}) || at.Before(from.At) || at.Equal(from.At) && from.ID != ""
	})
	end := min(first+wanted, len(q.messages))
	for end > first && end < len(q.messages) && q.messages[end].At.Equal(q.messages[end-1].At) {
		end++
	}
	if some = q.messages[first:end]; len(some) > 0 && (end < len(q.messages) || q.older) {
		bound = &place{At: some[len(some)-1].At}
	}
	return some, bound
}

// messageCalls returns the arguments of the script for the next messages, by
// partition.
func (r *ShelfReader) messageCalls(ctx context.Context, q *query, from place, wanted int) (calls []conn.Call, bound *place, err error) {
	some, bound := q.window(from, wanted)
	if len(some) == 0 && q.older {
		if err = r.findMessages(ctx, q, from); err != nil {
			return nil, nil, err
		}
		some, bound = q.window(from, wanted)
	}
	names := map[int][]any{}
	for _, m := range some {
		for _, n := range m.partitions {
			names[n] = append(names[n], "="+m.ID)
		}
	}
	for n, list := range names {
		for few := range slices.Chunk(list, messagesAtOnce) {
			calls = append(calls, conn.Call{Partition: n, Args: few})
		}
	}
	return calls, bound, nil
}
