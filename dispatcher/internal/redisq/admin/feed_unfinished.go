package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// Limits of a walk. One call reads 1 MiB of records of at most 16 KiB. If bodies are stored apart,
// with up to 4 MiB each, it reads fewer messages. A page ends at its limit of calls, deliveries or
// bytes.
const (
	walkedAtOnce = 48
	apartAtOnce  = 8

	callsOfPage      = 21 // for 1,000 messages with one delivery each
	deliveriesOfPage = archive.UnseenMost
	bytesOfPage      = 8 << 20
)

// Unfinished returns a page of the unfinished deliveries of a partition.
func (f *Feed) Unfinished(ctx context.Context, partition int, cursor string) (page archive.Page, err error) {
	at, server, err := conn.ParseCursor(cursor)
	if err != nil {
		return page, err
	}
	for calls, bytes := 0, 0; ; calls++ {
		call := conn.Call{Partition: partition, Args: []any{strconv.FormatUint(at, 10), walkedAtOnce, apartAtOnce}}
		some, next, err := f.some(ctx, call)
		if err != nil {
			return page, f.conn.InPartition(partition, err)
		}
		if at != 0 && next.server != server {
			return page, archive.ErrServerChanged
		}
		at, server = next.at, next.server
		page.Next = conn.CursorText(at, server)
		if joinPages(&page, &some); page.Epoch != some.Epoch {
			return page, archive.ErrMoved
		}
		for i := range some.Open {
			bytes += len(some.Open[i].Head) + len(some.Open[i].Body)
		}
		if page.Next == "" || calls+1 >= callsOfPage || len(page.Open) >= deliveriesOfPage || bytes >= bytesOfPage {
			return page, nil
		}
	}
}

// joinPages adds the result of some calls to a page. The page gets the epoch of the first call.
func joinPages(page, some *archive.Page) {
	if page.Messages == 0 && len(page.Open) == 0 {
		page.Epoch = some.Epoch
	}
	page.Open = append(page.Open, some.Open...)
	page.Messages, page.Total = page.Messages+some.Messages, some.Total
}

// UnfinishedOf returns the given deliveries that a partition has not finished.
func (f *Feed) UnfinishedOf(ctx context.Context, partition int, ids []dispatcher.DeliveryID) (page archive.Page, err error) {
	wanted := make(map[dispatcher.DeliveryID]bool, len(ids))
	var messages []string
	for _, id := range ids {
		wanted[id] = true
		messages = append(messages, id.Message)
	}
	slices.Sort(messages)
	for few := range slices.Chunk(slices.Compact(messages), apartAtOnce) {
		call := conn.Call{Partition: partition, Args: []any{"0", 0, 0}}
		for _, id := range few {
			call.Args = append(call.Args, id)
		}
		some, _, err := f.some(ctx, call)
		if err != nil {
			return page, f.conn.InPartition(partition, err)
		}
		some.Open = slices.DeleteFunc(some.Open, func(o archive.Open) bool { return !wanted[o.ID] })
		if joinPages(&page, &some); page.Epoch != some.Epoch {
			return page, archive.ErrMoved
		}
	}
	return page, nil
}

// unfinishedPlace is the cursor of the next call of a walk, within one process.
type unfinishedPlace struct {
	at     uint64
	server string
}

// some reads the reply of one call of the script.
func (f *Feed) some(ctx context.Context, call conn.Call) (page archive.Page, next unfinishedPlace, err error) {
	r := f.conn.Send(ctx, conn.Batch{Script: unfinishedScript, Calls: []conn.Call{call}})[0]
	if r.Err != nil {
		return page, next, r.Err
	}
	next.at, err = strconv.ParseUint(r.Text(), 10, 64)
	if err != nil {
		return page, next, fmt.Errorf("unfinished: %w", err)
	}
	page.Epoch = r.Text()
	next.server = f.conn.ServerName(r.Text())
	page.Messages, page.Total = int(r.Number()), int(r.Number())
	var apart []*apartBody
	var of []int // indices of their deliveries in the page
	for r.More() {
		id, record := r.Text(), r.Text()
		deliveries := make([]archive.Open, max(0, min(int(r.Number()), len(r.Values)/4)))
		body := readMessage(id, record, deliveries)
		for i := range deliveries {
			readOpen(&r.Reply, &deliveries[i])
		}
		if body != nil {
			apart, of = append(apart, body), append(of, len(page.Open))
		}
		page.Open = append(page.Open, deliveries...)
	}
	if r.Err != nil {
		return page, next, r.Err
	}
	for i, body := range apart {
		body.to = &page.Open[of[i]].Body
	}
	if err := f.readApart(ctx, call.Partition, apart, &page.Epoch); err != nil {
		return page, next, err
	}
	for i := range page.Open {
		page.Open[i].Epoch = page.Epoch
		if o := &page.Open[i]; i > 0 && page.Open[i-1].ID.Message == o.ID.Message && o.Body == nil {
			o.Body = page.Open[i-1].Body
		}
	}
	return page, next, nil
}

// readMessage copies the fields of a record into its deliveries. It returns the body if it must
// still be read.
func readMessage(id, record string, deliveries []archive.Open) *apartBody {
	head, body, err := conn.SplitRecord(id, record)
	var m *dispatcher.Message
	if err == nil {
		m, err = conn.DecodeRecord(id, string(head))
	}
	for i := range deliveries {
		o := &deliveries[i]
		o.ID.Message = id
		if err == nil { // a record that can't be read has only its name
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

// readOpen reads the state of one delivery.
func readOpen(r *conn.Reply, o *archive.Open) {
	o.ID.Lane = dispatcher.Lane(r.Text())
	p, _ := conn.ParseProgress(r.Text()) // a broken entry is read as none
	o.Attempts, o.Base, o.Beside, o.Asked = p.Attempts, p.Base, p.Beside, p.WaitsOn()
	o.Due = scoreTime(r.Text())
	joined := scoreTime(r.Text())
	if joined.IsZero() {
		joined = o.Created
	}
	o.Pos = archive.PosAt(joined)
}

// scoreTime reads a score in ms. It returns the zero time for any other text.
func scoreTime(text string) time.Time {
	ms, _ := strconv.ParseInt(text, 10, 64)
	return conn.FromMillis(ms)
}
