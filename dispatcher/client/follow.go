package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// silentFor is how long nothing may come: the server sends something each 15 s.
	silentFor = 45 * time.Second

	// mostEvent bounds an event. An attempt has a few KiB.
	mostEvent = 1 << 20
)

// Event is what Follow shows.
type Event struct {
	ID      string              // with which the next Follow goes on behind it
	Attempt *wire.LoggedAttempt // nil: it is none
	Gap     *wire.Gap           // some before are missing; nil: none are
	End     *wire.StreamEnd     // the server ends the stream, and why; nil: it does not
}

// Follow shows attempts as they happen, until ctx ends, show fails or the connection is
// lost, and never returns nil. behind is the ID of the last event that was shown, so
// that none is missed; empty: from now on, or from f.Since. The first event comes at
// once and has only an ID, as those have that say that the connection stands.
func (c *Client) Follow(ctx context.Context, f AttemptFilter, behind string, show func(Event) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	alive := time.AfterFunc(silentFor, func() { stop(errSilent) })
	defer alive.Stop()
	q := apiRequest{method: http.MethodGet, path: "/v1/attempts", query: listQuery(f.words(), f.Since, f.Until, f.Limit, f.Cursor)}
	err := c.stream(ctx, q, behind, func(e Event) error {
		alive.Reset(silentFor)
		return show(e)
	})
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, cause)
	}
	return fmt.Errorf("follow attempts: %w", err)
}

var errSilent = errors.New("nothing came for 45 s")

// stream makes a call and shows the events of its answer. It never returns nil.
func (c *Client) stream(ctx context.Context, q apiRequest, behind string, show func(Event) error) error {
	req, err := c.request(ctx, q)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if behind != "" {
		req.Header.Set("Last-Event-ID", behind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, mostEvent))
		if err != nil {
			return unreachable(err)
		}
		return problem(resp, body)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return errors.New("the answer is no event stream: is the server of an older version?")
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, mostEvent)
	var next rawEvent
	for lines.Scan() {
		if !next.add(lines.Text()) {
			continue
		}
		e, err := next.event()
		if err != nil {
			return err
		}
		if err := show(e); err != nil {
			return err
		}
		next = rawEvent{id: next.id}
	}
	if err := lines.Err(); err != nil {
		return unreachable(err)
	}
	return unreachable(io.EOF)
}

// rawEvent is an event as it is read, line by line.
type rawEvent struct{ name, id, data string }

// add adds a line. It reports whether the event is complete.
func (e *rawEvent) add(line string) (complete bool) {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch {
	case line == "":
		return true
	case field == "event":
		e.name = value
	case field == "id":
		e.id = value
	case field == "data":
		e.data += value
	}
	return false
}

func (e *rawEvent) event() (out Event, err error) {
	out.ID = e.id
	var to any
	switch {
	case e.data == "":
		return out, nil
	case e.name == "attempt":
		out.Attempt = &wire.LoggedAttempt{}
		to = out.Attempt
	case e.name == "gap":
		out.Gap = &wire.Gap{}
		to = out.Gap
	case e.name == "end":
		out.End = &wire.StreamEnd{}
		to = out.End
	default:
		return out, nil // of a later version
	}
	if err := json.Unmarshal([]byte(e.data), to); err != nil {
		return out, fmt.Errorf("read event: %w", err)
	}
	return out, nil
}
