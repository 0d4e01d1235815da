package admin

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// SealEndpoints seals all endpoints again with the first key, and copies their limits to
// their lanes. report is called for each endpoint that was not sealed with it.
func SealEndpoints(ctx context.Context, s *redisq.Store, report func(id string, err error)) error {
	return s.Endpoints.SealEndpoints(ctx, func(e *dispatcher.Endpoint) error {
		_, err := s.Limit(ctx, doctorName, e.Lane(), e.Limits(), false)
		return err
	}, report)
}

// sealPage is how many records one call reads. Each has at most 16 KiB.
const sealPage = 32

// SealMessages seals the headers of all messages again with the first key. It returns how
// many were not sealed with it. fail is called for each that can't be opened.
func SealMessages(ctx context.Context, queue *redisq.Store, fail func(err error)) (sealed int, err error) {
	s := newStore(queue)
	w := walker{s: s, by: doctorName}
	for n := range s.conn.Partitions() {
		for page, err := range w.pages(ctx, n, keys.Find(keys.Messages), "", sealPage) {
			if err != nil {
				return sealed, err
			}
			some, err := s.sealSome(ctx, n, page, fail)
			if sealed += some; err != nil {
				return sealed, err
			}
		}
	}
	return sealed, nil
}

// sealSome seals some messages, each after its id. A message that changed in the meantime was
// cut or forgotten, because a record is written only once.
func (s *projectStore) sealSome(ctx context.Context, n int, page []entry, fail func(error)) (sealed int, err error) {
	var calls []conn.Call
	for _, e := range page {
		record, err := conn.SealRecord(e.name, e.value, s.Endpoints.Box())
		if err != nil {
			fail(err)
		}
		if record != e.value {
			calls = append(calls, conn.Call{Partition: n, Args: []any{0, e.name, e.value, record}})
		}
	}
	for _, r := range s.conn.Send(ctx, conn.Batch{Script: putRecordScript, By: doctorName, Calls: calls}) {
		r.Hint()
		sealed += int(r.Number())
		if r.Err != nil {
			return sealed, s.conn.InPartition(n, r.Err)
		}
	}
	return sealed, nil
}

// unopened counts messages whose headers no key opens.
type unopened struct {
	messages int
	first    string // the id of one of them
}

// checkHeaders reads messages and counts those whose headers no key opens. A record that can't be
// read at all is another finding.
func (s *projectStore) checkHeaders(ctx context.Context, n int, ids []string, out *unopened) error {
	for some := range slices.Chunk(ids, sealPage) {
		var records *redis.SliceCmd
		err := s.conn.At(ctx, "read messages", n, func(p redis.Pipeliner) { records = p.HMGet(ctx, s.conn.Tag(n)+keys.Messages, some...) })
		if err != nil {
			return err
		}
		for i, v := range records.Val() {
			record, _ := v.(string)
			if errors.Is(conn.CheckHeaders(some[i], record, s.Endpoints.Box()), dispatcher.ErrSealed) {
				if out.messages++; out.first == "" {
					out.first = some[i]
				}
			}
		}
	}
	return nil
}

// ownKeys returns the ids of the keys, as the walk of messages takes them.
func (s *projectStore) ownKeys() (ids []any) {
	for _, id := range s.Endpoints.Box().IDs() {
		ids = append(ids, id)
	}
	return ids
}

// Limits of SampleHeaders: the calls, and about how many messages each reads.
const (
	sampleCalls = 64
	samplePage  = 16
)

// SampleHeaders reads about so many messages of the store, and counts those whose headers no key
// opens.
func SampleHeaders(ctx context.Context, queue *redisq.Store, most int) (read, messages int, err error) {
	s := newStore(queue)
	w := walker{s: s, by: doctorName}
	var found unopened
	for n, calls := 0, 0; n < s.conn.Partitions() && calls < sampleCalls && read < most; n++ {
		for cursor, more := "0", true; more && calls < sampleCalls && read < most; more = cursor != "0" {
			args := []any{"messages", "", cursor, samplePage}
			a, err := w.call(ctx, walkScript, n, append(args, s.ownKeys()...)...)
			if err != nil {
				return read, found.messages, err
			}
			cursor = a.Text()
			a.Text() // the process that the cursor is valid for; a new one begins to read somewhere else
			a.Number()
			read += int(a.Number())
			calls++
			var sealed []string
			for a.More() {
				if letter, name := a.Text(), a.Text(); letter == "k" {
					sealed = append(sealed, name)
				}
			}
			if err := s.checkHeaders(ctx, n, sealed, &found); err != nil {
				return read, found.messages, err
			}
		}
	}
	return read, found.messages, nil
}
