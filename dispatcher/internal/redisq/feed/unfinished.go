package feed

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Messages of one page of a walk: a MiB of records of at most 16 KiB. Where bodies lie
// apart, of up to 4 MiB, it is fewer.
const (
	walkedAtOnce = 48
	apartAtOnce  = 8
)

// Unfinished reads a page of what a partition has not finished.
func (f *Feed) Unfinished(ctx context.Context, partition int, cursor string) (page []archive.Open, next string, err error) {
	if cursor == "" {
		cursor = "0"
	}
	call := conn.Call{Partition: partition, Args: []any{cursor, walkedAtOnce, apartAtOnce}}
	r := f.conn.Send(ctx, conn.Batch{Script: unfinishedScript, Calls: []conn.Call{call}})[0]
	if r.Err != nil {
		return nil, "", f.conn.InPartition(partition, r.Err)
	}
	next = r.Text()
	epoch := r.Text()
	var apart []*apartBody
	var of []int // their deliveries in the page
	for r.More() {
		id, record := r.Text(), r.Text()
		deliveries := make([]archive.Open, max(0, min(int(r.Number()), len(r.Values)/4)))
		body := readMessage(id, record, deliveries)
		for i := range deliveries {
			readOpen(&r.Reply, &deliveries[i])
		}
		if body != nil {
			apart, of = append(apart, body), append(of, len(page))
		}
		page = append(page, deliveries...)
	}
	if r.Err != nil {
		return nil, "", f.conn.InPartition(partition, r.Err)
	}
	for i, body := range apart {
		body.to = &page[of[i]].Body
	}
	if err := f.readApart(ctx, partition, apart, &epoch); err != nil {
		return nil, "", f.conn.InPartition(partition, err)
	}
	for i := range page {
		page[i].Epoch = epoch
		if o := &page[i]; i > 0 && page[i-1].ID.Message == o.ID.Message && o.Body == nil {
			o.Body = page[i-1].Body
		}
	}
	if next == "0" {
		next = ""
	}
	return page, next, nil
}

// readMessage fills in what a record says of some deliveries. It answers a body that is
// still to be read.
func readMessage(id, record string, deliveries []archive.Open) *apartBody {
	head, body, err := redisq.SplitRecord(id, record)
	var m *dispatcher.Message
	if err == nil {
		m, err = redisq.DecodeRecord(id, string(head))
	}
	for i := range deliveries {
		o := &deliveries[i]
		o.ID.Message = id
		if err == nil { // one that can't be read has no more than its name
			o.Created, o.Topic, o.Tenant, o.Subject, o.Head = m.CreatedAt, m.Topic, m.Tenant, m.Subject, head
			if m.Apart == nil {
				o.Body = body
			}
		}
	}
	if err != nil || m.Apart == nil || len(deliveries) == 0 {
		return nil
	}
	return &apartBody{id: id, digest: m.Apart.Digest}
}

// readOpen reads what is told of one delivery.
func readOpen(r *conn.Reply, o *archive.Open) {
	o.ID.Lane = dispatcher.Lane(r.Text())
	rungs := redisq.ReadRungs(r.Text())
	o.Attempts, o.Base, o.Beside, o.Asked = rungs.Attempts, rungs.Base, rungs.Beside, rungs.Asked
	o.Due = scoreTime(r.Text())
	joined := scoreTime(r.Text())
	if joined.IsZero() {
		joined = o.Created
	}
	o.Pos = archive.PosAt(joined)
}

// scoreTime reads a score in ms; what is none is no time.
func scoreTime(text string) time.Time {
	ms, _ := strconv.ParseInt(text, 10, 64)
	return conn.FromMillis(ms)
}

// endpointsAtOnce are records of one page, of 32 KiB at most.
const endpointsAtOnce = 32

// Endpoints reads the records of all endpoints, and which were deleted.
func (f *Feed) Endpoints(ctx context.Context) (list []archive.Endpoint, err error) {
	at := map[string]int{}
	add := func(e archive.Endpoint) {
		if k, met := at[e.ID]; met { // a page may have it again
			list[k] = e
			return
		}
		at[e.ID] = len(list)
		list = append(list, e)
	}
	err = f.scanHome(ctx, keys.Endpoints, func(id, stored string) {
		version, record, ok := strings.Cut(stored, " ")
		if n, err := strconv.ParseInt(version, 10, 64); err == nil && ok {
			add(archive.Endpoint{ID: id, Version: n, Record: []byte(record)})
		}
	})
	if err != nil {
		return nil, err
	}
	return list, f.scanHome(ctx, keys.Gone, func(id, end string) {
		if n, err := strconv.ParseInt(end, 10, 64); err == nil {
			add(archive.Endpoint{ID: id, Version: n, Deleted: true})
		}
	})
}

// scanHome goes through a hash of the project's own.
func (f *Feed) scanHome(ctx context.Context, name string, do func(field, value string)) error {
	key, cursor := keys.Home(f.conn.Project())+name, uint64(0)
	for {
		var scan *redis.ScanCmd
		err := f.conn.At(ctx, "read "+key, conn.Home, func(p redis.Pipeliner) { scan = p.HScan(ctx, key, cursor, "", endpointsAtOnce) })
		if err != nil {
			return err
		}
		var found []string
		found, cursor = scan.Val()
		for i := 0; i+1 < len(found); i += 2 {
			do(found[i], found[i+1])
		}
		if cursor == 0 {
			return nil
		}
	}
}

// Holds reads the lanes that people hold, but those of endpoints, whose records say it.
func (f *Feed) Holds(ctx context.Context) (holds []archive.Hold, err error) {
	var all *redis.StringCmd
	err = f.conn.At(ctx, "read what is held", 0, func(p redis.Pipeliner) { all = p.HGet(ctx, f.conn.Tag(0)+keys.Held, string(dispatcher.AllLanes)) })
	if err != nil {
		return nil, err
	}
	if h, ok := redisq.ParseHeld(all.Val()); ok {
		holds = append(holds, archive.Hold{Lane: dispatcher.AllLanes, Since: h.Since, By: h.By})
	}
	for cursor := ""; ; {
		lanes, next, err := f.store.HeldLanes(ctx, cursor)
		if err != nil {
			return nil, err
		}
		for _, l := range lanes {
			if l.Held == dispatcher.HeldPaused && !strings.HasPrefix(string(l.Lane), "ep_") {
				holds = append(holds, archive.Hold{Lane: l.Lane, Since: l.Since, By: l.By})
			}
		}
		if cursor = next; cursor == "" {
			return holds, nil
		}
	}
}

// Message makes a message of what an archive keeps of it. A nil body was not kept, or
// lies apart. Values of headers that are sealed stay so.
func Message(id string, head, body []byte) (*dispatcher.Message, error) {
	m, err := redisq.DecodeRecord(id, string(head))
	if err != nil {
		return nil, fmt.Errorf("archived %w", err)
	}
	if body != nil {
		m.Body, m.Apart = body, nil
	}
	return m, nil
}
