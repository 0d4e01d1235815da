package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// printJSON prints a value as indented JSON, with no character that a terminal would obey.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(safeJSON{Out: out})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printMessageJSON prints a message with its body byte for byte, because an indented body would
// be another one.
func printMessageJSON(out io.Writer, m wire.MessageView) error {
	body := m.Body
	m.Body = nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return err
	}
	text := b.String()
	if body != nil {
		text = strings.TrimSuffix(text, "\n}\n") + ",\n  \"body\": " + string(body) + "\n}\n"
	}
	_, err := io.WriteString(safeJSON{Out: out}, text)
	return err
}

// printCancelledJSON prints the response of the API. Without the scope read it has only the
// status of each delivery, and each topic is empty.
func printCancelledJSON(out io.Writer, all wire.Deliveries) error {
	if slices.ContainsFunc(all.Deliveries, func(d wire.Delivery) bool { return d.Topic != "" }) {
		return printJSON(out, all)
	}
	brief := wire.BriefDeliveries{ID: all.ID}
	for _, d := range all.Deliveries {
		brief.Deliveries = append(brief.Deliveries, wire.BriefDelivery{ID: d.ID, Destination: d.Destination, Status: d.Status})
	}
	return printJSON(out, brief)
}

// printRetriedJSON does the same with the response to a retry.
func printRetriedJSON(out io.Writer, retried wire.Retried) error {
	if slices.ContainsFunc(retried.Deliveries, func(d wire.RetriedDelivery) bool { return d.Topic != "" }) {
		return printJSON(out, retried)
	}
	plain := wire.Deliveries{ID: retried.ID}
	for _, d := range retried.Deliveries {
		plain.Deliveries = append(plain.Deliveries, d.Delivery)
	}
	return printCancelledJSON(out, plain)
}
