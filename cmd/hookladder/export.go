package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The words of an export.
const (
	exportDeliveries = "deliveries"
	exportMessages   = "messages"
)

// exportRun selects the data and the format.
type exportRun struct {
	What   string // exportDeliveries or exportMessages
	JSON   bool   // JSON Lines; false: CSV
	Of     archive.Selection
	Bodies bool   // also the bodies of messages, or the responses of receivers, which CSV of deliveries does not support
	Out    string // a file; empty: Stdout

	Stdout   io.Writer
	Progress io.Writer // gets the progress; nil: no progress
}

// Run writes the export, and returns the number of rows. A file appears only when it is
// complete.
func (e *exportRun) Run(ctx context.Context, o app.Options) (rows int, err error) {
	if e.Out == "" {
		return e.write(ctx, o, e.Stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(e.Out), filepath.Base(e.Out)+".*.part") // only its owner may read it
	if err != nil {
		return 0, err
	}
	rows, err = e.write(ctx, o, f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), e.Out)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return rows, err
}

func (e *exportRun) write(ctx context.Context, o app.Options, to io.Writer) (rows int, err error) {
	out := bufio.NewWriterSize(to, 64<<10)
	bar := exportBar{out: e.Progress, began: time.Now()}
	rowsTo := e.rows(out)
	put := func(r exportRow) error {
		bar.row()
		return rowsTo.put(r)
	}
	x := app.Export{Of: e.Of, Bodies: e.Bodies, Progress: bar.month}
	if e.What == exportDeliveries {
		err = app.ExportDeliveries(ctx, o, x, func(d *app.Exported) error { return put(e.delivery(d)) })
	} else {
		err = app.ExportMessages(ctx, o, x, func(m *dispatcher.Message, size int) error { return put(e.message(m, size)) })
	}
	bar.end()
	if err == nil {
		err = rowsTo.end()
	}
	if err == nil {
		err = out.Flush()
	}
	return bar.rows, err
}

// exportRow is a row of a delivery or a message.
type exportRow interface {
	Row() []string // in the order of the headers
}

// archiveRows writes rows in one of the formats.
type archiveRows struct {
	put func(exportRow) error
	end func() error
}

func (e *exportRun) rows(out *bufio.Writer) archiveRows {
	if e.JSON {
		enc := json.NewEncoder(safeJSON{Out: out})
		enc.SetEscapeHTML(false)
		return archiveRows{put: func(r exportRow) error { return enc.Encode(r) }, end: func() error { return nil }}
	}
	columns := wire.DeliveryColumns()
	if e.What == exportMessages {
		columns = messageColumns[:len(messageColumns)-2]
		if e.Bodies {
			columns = messageColumns
		}
	}
	w, shown := wire.NewCSV(out, columns), e.Out == "" && isTerminal(e.Stdout)
	return archiveRows{
		put: func(r exportRow) error {
			row := r.Row()[:len(columns)]
			for i := range row {
				if shown { // a text with several lines would look like several rows
					row[i] = visible(row[i])
				}
			}
			return w.Write(row)
		},
		end: w.Flush,
	}
}

// messageColumns has the columns of the body last.
var messageColumns = []string{
	"id", "created_at", "topic", "tenant", "subject", "url", "endpoint", "queue", "content_type", "ordering_key", "body_bytes", "body", "body_base64",
}

// deliveryLine is a finished delivery with its last attempt.
type deliveryLine struct {
	wire.Delivery
	Address        string  `json:"address,omitempty"`
	DurationMS     int64   `json:"duration_ms,omitempty"`
	Response       *string `json:"response,omitempty"` // if it is valid UTF-8
	ResponseBase64 *string `json:"response_base64,omitempty"`
}

func (e *exportRun) delivery(d *app.Exported) exportRow {
	r := &deliveryLine{Delivery: d.Delivery, Address: d.Last.Address, DurationMS: d.Last.Duration.Milliseconds()}
	if e.Bodies && !d.Last.At.IsZero() {
		r.Response, r.ResponseBase64 = plainAndEncoded(d.Last.Excerpt)
	}
	return r
}

// messageLine is a message without its headers, because they may have secrets.
type messageLine struct {
	ID          string    `json:"id"`
	CreatedAt   wire.Time `json:"created_at"`
	Topic       string    `json:"topic"`
	Tenant      string    `json:"tenant,omitempty"`
	Subject     string    `json:"subject,omitempty"`
	URL         string    `json:"url,omitempty"`
	Endpoint    string    `json:"endpoint,omitempty"`
	Queue       string    `json:"queue,omitempty"`
	ContentType string    `json:"content_type,omitempty"`
	OrderingKey string    `json:"ordering_key,omitempty"`
	BodyBytes   int       `json:"body_bytes"`
	Body        *string   `json:"body,omitempty"` // if it is valid UTF-8
	BodyBase64  *string   `json:"body_base64,omitempty"`
}

func (e *exportRun) message(m *dispatcher.Message, size int) exportRow {
	r := &messageLine{
		ID: m.ID, CreatedAt: wire.Time{Time: m.CreatedAt}, Topic: m.Topic, Tenant: m.Tenant, Subject: m.Subject,
		URL: m.URL, Endpoint: m.Endpoint, Queue: m.Queue, ContentType: m.ContentType, OrderingKey: m.OrderingKey, BodyBytes: size,
	}
	if e.Bodies && m.Apart == nil {
		r.Body, r.BodyBase64 = plainAndEncoded(m.Body)
	}
	return r
}

// Row returns the message in the order of messageColumns.
func (r *messageLine) Row() []string {
	return []string{
		r.ID, r.CreatedAt.Text(), r.Topic, r.Tenant, r.Subject, r.URL, r.Endpoint, r.Queue, r.ContentType, r.OrderingKey,
		strconv.Itoa(r.BodyBytes), textOf(r.Body), textOf(r.BodyBase64),
	}
}

// plainAndEncoded returns bytes as base64, and as text if they are valid UTF-8.
func plainAndEncoded(raw []byte) (plain, encoded *string) {
	encoded = new(base64.StdEncoding.EncodeToString(raw))
	if utf8.Valid(raw) {
		plain = new(string(raw))
	}
	return plain, encoded
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// exportBar prints the progress of an export in one line.
type exportBar struct {
	out          io.Writer
	began, shown time.Time
	rows         int
	done, months int
}

func (b *exportBar) row() {
	if b.rows++; b.rows%256 == 0 && time.Since(b.shown) > barEvery {
		b.show()
	}
}

func (b *exportBar) month(done, months int) {
	b.done, b.months = done, months
	b.show()
}

func (b *exportBar) show() {
	if b.out == nil {
		return
	}
	b.shown = time.Now()
	line := fmt.Sprintf("%s %d of %d months, %s rows", bar(b.done, b.months), b.done, b.months, commas(b.rows))
	if took := time.Since(b.began); took > time.Second {
		line += fmt.Sprintf(", %.0f/s", float64(b.rows)/took.Seconds())
	}
	overwrite(b.out, line)
}

func (b *exportBar) end() {
	if b.out != nil {
		b.show()
		fmt.Fprintln(b.out)
	}
}
