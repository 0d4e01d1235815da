package wire

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// The headers of an answer as CSV, which has no place for them itself.
const (
	HeaderResumeCursor  = "resume-cursor"
	HeaderNextCursor    = "next-cursor"    // only where there is more
	HeaderCompleteSince = "complete-since" // only where something was forgotten
)

// EndedColumns are the columns of WriteEnded.
var EndedColumns = []string{"id", "message_id", "subject", "topic", "status", "ended_at", "created_at", "attempts", "status_code", "dead_reason", "error"}

// WriteEnded writes deliveries that ended as CSV, behind a line of headers.
func WriteEnded(out io.Writer, list []EndedDelivery) error {
	w := NewCSV(out, EndedColumns)
	for i := range list {
		_ = w.Write(EndedRow(&list[i])) // Flush keeps its error
	}
	return w.Flush()
}

// EndedRow is a row of EndedColumns.
func EndedRow(d *EndedDelivery) []string {
	return []string{
		d.ID, d.MessageID, d.Subject, d.Topic, d.Status, d.EndedAt.Text(), d.CreatedAt.Text(),
		strconv.Itoa(d.Attempts), CSVStatus(d.LastStatusCode), d.DeadReason, d.LastError,
	}
}

// WriteCSV writes rows as a CSV does.
func WriteCSV(out io.Writer, columns []string, rows [][]string) error {
	w := NewCSV(out, columns)
	for _, row := range rows {
		_ = w.Write(row)
	}
	return w.Flush()
}

// CSV writes rows as RFC 4180 has them, behind a line of headers. No spreadsheet takes a
// text of them for a formula.
type CSV struct{ w *csv.Writer }

// NewCSV writes the headers.
func NewCSV(out io.Writer, columns []string) CSV {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	_ = w.Write(columns) // Flush keeps its error
	return CSV{w}
}

// Write writes a row, whose texts it may change.
func (c CSV) Write(row []string) error {
	for i, text := range row {
		row[i] = harmless(text)
	}
	return c.w.Write(row)
}

// Flush ends the rows so far, and answers whether all were written.
func (c CSV) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

// harmless puts a quote before a text that would be a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

// CSVStatus is an HTTP status in CSV; empty: no answer came.
func CSVStatus(status int) string {
	if status == 0 {
		return ""
	}
	return strconv.Itoa(status)
}

// Text is the time as the API writes it, without quotes; empty for the zero time.
func (t Time) Text() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}
