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
	// silentFor is the longest time without data, because the server sends data every 15
	// s.
	silentFor = 45 * time.Second

	// mostEvent bounds an event. An attempt has a few KiB.
	mostEvent = 1 << 20
)

// Event is one event of Follow.
type Event struct {
	ID      string              // pass it to the next Follow to continue after this event
	Attempt *wire.LoggedAttempt // nil: the event is not an attempt
	Gap     *wire.Gap           // attempts before this event are missing; nil: none are
	End     *wire.StreamEnd     // the server ends the stream, with the reason; nil: it does not
}

// Follow calls show for each attempt as it happens. It returns when ctx ends, show
// returns an error or the connection is lost, and never returns nil. behind is the ID of
// the last event that was shown, so that no event is missed. If it is empty, Follow
// starts now, or at f.Since. The first event comes at once and has only an ID, like the
// events that keep the connection alive.
func (c *Client) Follow(ctx context.Context, f AttemptFilter, behind string, show func(Event) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	alive := time.AfterFunc(silentFor, func() { stop(errSilent) })
	defer alive.Stop()
	q := apiRequest{method: http.MethodGet, path: "/v1/attempts", query: listQuery(f)}
	err := c.stream(ctx, q, behind, func(e Event) error {
		alive.Reset(silentFor)
		return show(e)
	})
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errSilent):
		err = fmt.Errorf("%w: %w", ErrUnreachable, cause)
	case ctx.Err() != nil && errors.Is(err, ErrUnreachable): // the caller gave up, so the server may be well
		err = ctx.Err()
	}
	return fmt.Errorf("follow attempts: %w", err)
}

var errSilent = errors.New("no data came for 45 s")

// stream makes a call and shows the events of its response. It never returns nil.
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
		return errors.New("the response is not an event stream: is the server older?")
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

// rawEvent is an event that is read line by line.
type rawEvent struct{ name, id, data string }

// add adds a line, and reports whether the event is complete.
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
		return out, nil // from a later version of the server
	}
	if err := json.Unmarshal([]byte(e.data), to); err != nil {
		return out, fmt.Errorf("read event: %w", err)
	}
	return out, nil
}
