package feed

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
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
