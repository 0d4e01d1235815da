package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// publishBatch serves POST /v1/messages/batch.
func (s *messageServer) publishBatch(ctx context.Context, q *api.Request) (*api.Response, error) {
	ctx, t := s.begin(ctx, q)
	answer, err := s.publishAll(ctx, q, t)
	t.end(answer, err)
	return answer, err
}

// publishAll publishes a batch. The engine gets the valid messages in one call, even if others
// are invalid.
func (s *messageServer) publishAll(ctx context.Context, q *api.Request, t publishTrace) (*api.Response, error) {
	if q.HTTP.Header["Idempotency-Key"] != nil {
		return nil, api.WrongField("header.Idempotency-Key", "names one message: give each message of a batch its id")
	}
	b, err := api.Decode(q, decodeBatch)
	if err != nil {
		return nil, err
	}
	if err := api.WrongFields(b.wrong); err != nil {
		return nil, err
	}
	o := outcomes{bad: make([]*api.Problem, len(b.messages)), good: make([]*dispatcher.Message, 0, len(b.messages)), reads: q.Reads}
	for i := range b.messages {
		if o.bad[i] = judge(&b.messages[i], api.BatchIndex(i), s.Policy); o.bad[i] == nil {
			b.messages[i].Value.Trace = t.kept
			o.good = append(o.good, b.messages[i].Value)
		} else {
			q.Writer.Refusal = o.bad[i]
		}
	}
	if t.span != nil {
		t.span.Set(slog.Int(trace.Messages, len(b.messages)))
	}
	q.Writer.Handed, q.Writer.Refused = true, len(o.bad)-len(o.good)
	if len(o.good) > 0 {
		if o.results, err = s.Publisher.Publish(ctx, o.good); err != nil {
			return nil, err
		}
		if len(o.results) != len(o.good) {
			return nil, fmt.Errorf("publish batch: %d results for %d messages", len(o.results), len(o.good))
		}
	}
	buf := api.Borrow(answerBytes * len(o.bad))
	_, _ = buf.Write(s.appendBatch(ctx, buf.AvailableBuffer(), &o))
	if o.refused != nil {
		q.Writer.Refusal = o.refused
	}
	if o.away != nil && !o.taken { // nothing was stored: the response is a problem that contains the results
		defer api.Release(buf)
		body := o.away.Body()
		return o.away.Response(append(append(body[:len(body)-1], ','), buf.Bytes()[1:]...)), nil
	}
	return &api.Response{Status: http.StatusAccepted, ContentType: api.MediaJSON, Body: buf.Bytes(), Borrowed: buf}, nil
}

// outcomes has the results of the messages of a batch.
type outcomes struct {
	bad     []*api.Problem        // one for each message; nil: it is valid
	good    []*dispatcher.Message // messages that the engine got
	results []dispatcher.Published
	reads   bool // the caller has the scope read

	taken   bool         // one result is 200 or 202
	refused *api.Problem // of one that the engine refused; nil: none
	away    *api.Problem // with status 503, the one with the longest Retry-After; nil: none
}

// appendBatch appends the response that each message would get from its own call.
func (s *messageServer) appendBatch(ctx context.Context, b []byte, o *outcomes) []byte {
	b = append(b, `{"results":[`...)
	next := 0
	for i, p := range o.bad {
		if i > 0 {
			b = append(b, ',')
		}
		if p != nil {
			b = appendProblem(b, p)
			continue
		}
		msg, result := o.good[next], &o.results[next]
		next++
		if err := refused(result, api.BatchIndex(i)); err != nil {
			p := api.LoggedProblem(ctx, s.Log, err)
			o.refused = p
			if p.Kind.Status == http.StatusServiceUnavailable && (o.away == nil || p.Kind.Retry > o.away.Kind.Retry) {
				o.away = p
			}
			b = appendProblem(b, p)
			continue
		}
		o.taken = true
		b = appendResult(b, publishedStatus(result))
		b = append(appendPublished(b, msg, result, o.reads), '}')
	}
	return append(b, "]}"...)
}

// appendResult appends the start of a batch result.
func appendResult(b []byte, status int) []byte {
	b = strconv.AppendInt(append(b, `{"status":`...), int64(status), 10)
	return append(b, ',')
}

// appendProblem appends the result of a message that was not accepted.
func appendProblem(b []byte, p *api.Problem) []byte {
	b = append(appendResult(b, p.Kind.Status), `"problem":`...)
	b = append(b, p.Body()...)
	return append(b, '}')
}
