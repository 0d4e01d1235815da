package wire

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The headers of a CSV response, because CSV has no place for these values.
const (
	HeaderResumeCursor  = "resume-cursor"
	HeaderNextCursor    = "next-cursor"    // only if there is more
	HeaderCompleteSince = "complete-since" // only if something was forgotten
)

// DeliveryColumns are the columns of every CSV of deliveries.
func DeliveryColumns() []string {
	return []string{
		"id", "message_id", "tenant", "subject", "topic", "destination", "url", "status", "created_at", "ended_at", "attempts", "status_code", "dead_reason", "error",
	}
}

// WriteDeliveries writes deliveries as CSV, after a header line.
func WriteDeliveries(out io.Writer, list []Delivery) error {
	w := NewCSV(out, DeliveryColumns())
	for i := range list {
		_ = w.Write(list[i].Row()) // Flush keeps its error
	}
	return w.Flush()
}

// Row returns the delivery in the order of DeliveryColumns.
func (d *Delivery) Row() []string {
	status := ""
	if d.LastStatusCode != 0 { // there was a response
		status = strconv.Itoa(d.LastStatusCode)
	}
	return []string{
		d.ID, d.MessageID, d.Tenant, d.Subject, d.Topic, d.Destination, d.URL, d.Status, d.CreatedAt.Text(), d.EndedAt.Text(),
		strconv.Itoa(d.Attempts), status, d.DeadReason, d.LastError,
	}
}

// CSV writes rows in the format of RFC 4180, after a header line. It escapes texts that a
// spreadsheet would read as a formula.
type CSV struct{ w *csv.Writer }

// NewCSV writes the headers, and returns the writer of the rows.
func NewCSV(out io.Writer, columns []string) CSV {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	_ = w.Write(columns) // Flush keeps its error
	return CSV{w}
}

// Write writes a row. It may change the texts of the row.
func (c CSV) Write(row []string) error {
	for i, text := range row {
		row[i] = harmless(text)
	}
	return c.w.Write(row)
}

// Flush writes all buffered rows, and returns the first error.
func (c CSV) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

// harmless returns a text with a quote before it if it would be a formula.
func harmless(text string) string {
	if first, _ := utf8.DecodeRuneInString(text); text != "" && strings.ContainsRune("=+-@＝＋－＠\t\r\n", first) {
		return "'" + text
	}
	return text
}

// Text returns the time as the API writes it, without quotes; empty for the zero time.
func (t Time) Text() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}
