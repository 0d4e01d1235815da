package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The formats of a file.
const (
	formatJSONLines = "jsonl"
	formatCSV       = "csv"
)

// formatOf returns the format of a file with that name.
func formatOf(name string) string {
	if strings.HasSuffix(strings.ToLower(name), ".csv") {
		return formatCSV
	}
	return formatJSONLines
}

// endpointColumns are the fields of an endpoint in a file, in the order of a CSV. plainColumns has those
// that are texts. The others are JSON.
var endpointColumns, plainColumns = endpointColumnsOf(reflect.TypeFor[wire.Endpoint]())

func endpointColumnsOf(of reflect.Type) (names []string, plain map[string]bool) {
	plain = map[string]bool{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names, plain[name] = append(names, name), f.Type.Kind() == reflect.String
	}
	return names, plain
}

// endpointExport writes endpoints.
type endpointExport struct {
	Client  *client.Client
	Tenants []string // none: all
	Format  string
}

// exportedEndpoints counts the endpoints of an export, and the parts that are missing in the file.
type exportedEndpoints struct {
	Endpoints, NoUID, NoSecret, Headers int
}

// Run writes the endpoints to out.
func (x *endpointExport) Run(ctx context.Context, out io.Writer) (n exportedEndpoints, err error) {
	buffered := bufio.NewWriter(out)
	write, end := x.writer(buffered)
	secrets := true
	for view, err := range x.Client.EachEndpoint(ctx, client.EndpointFilter{Tenants: x.Tenants}) {
		if err != nil {
			return n, err
		}
		e := view.Endpoint
		if secrets {
			if e.Secret, err = x.secret(ctx, view.ID); errors.Is(err, client.ErrDenied) {
				secrets = false
			} else if err != nil {
				return n, err
			}
		}
		n.count(&e)
		if err := write(&e); err != nil {
			return n, err
		}
	}
	return n, errors.Join(end(), buffered.Flush())
}

// secret returns the current secret of an endpoint. It is empty if the endpoint was deleted
// in the meantime.
func (x *endpointExport) secret(ctx context.Context, id string) (string, error) {
	all, err := x.Client.EndpointSecret(ctx, id)
	if errors.Is(err, client.ErrNotFound) || err == nil && len(all.Secrets) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return all.Secrets[0].Secret, nil
}

func (n *exportedEndpoints) count(e *wire.Endpoint) {
	n.Endpoints++
	if e.UID == "" {
		n.NoUID++
	}
	if e.Secret == "" {
		n.NoSecret++
	}
	if len(e.Headers) > 0 {
		n.Headers++
	}
}

// writer returns a function that writes an endpoint, and one that ends the file.
func (x *endpointExport) writer(out io.Writer) (write func(*wire.Endpoint) error, end func() error) {
	if x.Format != formatCSV {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return func(e *wire.Endpoint) error { return enc.Encode(e) }, func() error { return nil }
	}
	w := wire.NewCSV(out, endpointColumns)
	return func(e *wire.Endpoint) error {
		row, err := endpointRow(e)
		if err != nil {
			return err
		}
		return w.Write(row)
	}, w.Flush
}

// endpointRow returns the cells of an endpoint. A cell is a text, or JSON for other values.
func endpointRow(e *wire.Endpoint) ([]string, error) {
	fields, err := fieldsOf(e)
	if err != nil {
		return nil, err
	}
	row := make([]string, len(endpointColumns))
	for i, name := range endpointColumns {
		var text string
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, &text) == nil {
			row[i] = text
		} else {
			row[i] = string(raw)
		}
	}
	return row, nil
}

// fieldsOf returns the fields of an endpoint that have a value.
func fieldsOf(e *wire.Endpoint) (fields map[string]json.RawMessage, err error) {
	text, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("encode endpoint %s: %w", e.UID, err)
	}
	return fields, nil
}
