// Package transfer writes all endpoints of a server into a file, and makes a server have the
// endpoints of a file.
package transfer

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
	JSONLines = "jsonl"
	CSV       = "csv"
)

// FormatOf returns the format of a file with that name.
func FormatOf(name string) string {
	if strings.HasSuffix(strings.ToLower(name), ".csv") {
		return CSV
	}
	return JSONLines
}

// columns are the fields of an endpoint in a file, in the order of a CSV. plain has those
// that are texts. The others are JSON.
var columns, plain = columnsOf(reflect.TypeFor[wire.Endpoint]())

func columnsOf(of reflect.Type) (names []string, plain map[string]bool) {
	plain = map[string]bool{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names, plain[name] = append(names, name), f.Type.Kind() == reflect.String
	}
	return names, plain
}

// Export writes endpoints.
type Export struct {
	Client  *client.Client
	Tenants []string // none: all
	Format  string
}

// Exported counts the endpoints of an export, and the parts that are missing in the file.
type Exported struct {
	Endpoints, NoUID, NoSecret, Headers int
}

// pageSize is the largest page of the API.
const pageSize = 500

// Run writes the endpoints to out, page by page.
func (x *Export) Run(ctx context.Context, out io.Writer) (n Exported, err error) {
	buffered := bufio.NewWriter(out)
	write, end := x.writer(buffered)
	secrets := true
	for cursor := ""; ; {
		page, err := x.Client.Endpoints(ctx, client.EndpointFilter{Tenants: x.Tenants, Limit: pageSize, Cursor: cursor})
		if err != nil {
			return n, err
		}
		for _, view := range page.Data {
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
		if page.NextCursor == nil {
			return n, errors.Join(end(), buffered.Flush())
		}
		cursor = *page.NextCursor
	}
}

// secret returns the current secret of an endpoint. It is empty if the endpoint was deleted
// in the meantime.
func (x *Export) secret(ctx context.Context, id string) (string, error) {
	all, err := x.Client.EndpointSecret(ctx, id)
	if errors.Is(err, client.ErrNotFound) || err == nil && len(all.Secrets) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return all.Secrets[0].Secret, nil
}

func (n *Exported) count(e *wire.Endpoint) {
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
func (x *Export) writer(out io.Writer) (write func(*wire.Endpoint) error, end func() error) {
	if x.Format != CSV {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return func(e *wire.Endpoint) error { return enc.Encode(e) }, func() error { return nil }
	}
	w := wire.NewCSV(out, columns)
	return func(e *wire.Endpoint) error {
		row, err := rowOf(e)
		if err != nil {
			return err
		}
		return w.Write(row)
	}, w.Flush
}

// rowOf returns the cells of an endpoint. A cell is a text, or JSON for other values.
func rowOf(e *wire.Endpoint) ([]string, error) {
	fields, err := fieldsOf(e)
	if err != nil {
		return nil, err
	}
	row := make([]string, len(columns))
	for i, name := range columns {
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
