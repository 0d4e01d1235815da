package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/callers"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func TestAttemptsAreListed(t *testing.T) {
	f := &Fake{LogPage: LogPage}
	h := newTestAPI(t, f)
	got := DecodeAnswer[wire.LoggedPage](t, Get(h, "/v1/attempts?destination=u_1&tenant=acme&message=m1&message=m2&outcome=dead&outcome=cancelled"+
		"&topic=payment.*&topic=a.b&subject=order+7&status_code=503&status_code=404&job=job_7&job=job_8"+
		"&since=2026-01-02T03:04:05Z&until=2026-01-02T03:04:06Z&limit=7&cursor=c"), 200)
	require.Len(t, got.Data, 2)
	at := got.Data[0].At
	require.True(t, at.Equal(Now.Truncate(time.Millisecond)))
	require.Equal(t, wire.LoggedAttempt{
		ID: "u_1:m1", MessageID: "m1", Destination: "u_1", URL: "https://a.example/hook", Address: "192.0.2.1:443", Topic: "a.b", Tenant: "acme", Subject: "order 7",
		Attempt: 2, At: at, DurationMS: 12, StatusCode: 200, Outcome: "delivered", ResponseExcerpt: "ok\ufffd", Resend: true, ShortHello: true, Job: "job_7",
	}, got.Data[0])
	require.Equal(t, "dead", got.Data[1].Outcome)
	require.Equal(t, "disabled", got.Data[1].Error)
	require.Equal(t, "1-0-0-0", *got.NextCursor)
	require.Equal(t, 7, got.LookedAt)
	require.Equal(t, at, got.CompleteSince)

	require.Equal(t, []string{"acme"}, f.LogFilter.Tenants)
	require.Equal(t, []string{"m1", "m2"}, f.LogFilter.Messages)
	require.Equal(t, []dispatcher.Happening{"dead", "cancelled"}, f.LogFilter.Happenings)
	require.Equal(t, []string{"payment.*", "a.b"}, f.LogFilter.Topics)
	require.Equal(t, []string{"order 7"}, f.LogFilter.Subjects)
	require.Equal(t, []int{503, 404}, f.LogFilter.Statuses)
	require.Equal(t, []int64{7, 8}, f.LogFilter.Jobs)
	require.Len(t, f.LogFilter.Lanes, 1)
	require.Equal(t, time.Second, f.LogFilter.Until.Sub(f.LogFilter.Since))
	require.Equal(t, 7, f.Filter.Limit)
	require.Equal(t, "c", f.Filter.Cursor)

	f.LogPage = dispatcher.LogPage{}
	require.Equal(t, `{"data":[],"next_cursor":null,"looked_at":0,"complete_since":null}`, Get(h, "/v1/attempts").Body.String())
}

func TestTheClientListsAttempts(t *testing.T) {
	f := &Fake{LogPage: LogPage}
	page, err := newTestClient(t, f).Attempts(t.Context(), client.AttemptFilter{
		Destinations: []string{"u_1"}, Tenants: []string{"acme"}, Messages: []string{"m1"}, Outcomes: []string{"dead"},
		Topics: []string{"a.*"}, Subjects: []string{"order 7"}, StatusCodes: []int{503}, Jobs: []string{"job_7"},
		Since: Now, Until: Now.Add(1), Limit: 7, Cursor: "c",
	})
	require.NoError(t, err)
	require.Len(t, page.Data, 2)
	require.Equal(t, dispatcher.LogFilter{
		Lanes: []dispatcher.Lane{"u_1"}, Tenants: []string{"acme"}, Messages: []string{"m1"}, Happenings: []dispatcher.Happening{"dead"},
		Topics: []string{"a.*"}, Subjects: []string{"order 7"}, Statuses: []int{503}, Jobs: []int64{7},
		Since: Now.UTC(), Until: Now.Add(1).UTC(),
	}, f.LogFilter)
	require.Equal(t, "c", f.Filter.Cursor)
}

func TestABadFilterOfAttemptsIs422(t *testing.T) {
	f := &Fake{}
	h := newTestAPI(t, f)
	for query, path := range map[string]string{
		"outcome=lost": "query.outcome", "message=a.b": "query.message", "status=dead": "query.status", "since=now": "query.since",
		"limit=501": "query.limit", "destination=a:b": "query.destination", "tenant=": "query.tenant",
		"topic=a.*.b": "query.topic", "subject=": "query.subject", "status_code=99": "query.status_code", "status_code=5xx": "query.status_code",
		"job=7": "query.job", "job=": "query.job", "job=job_07": "query.job",
	} {
		RequireField(t, Get(h, "/v1/attempts?"+query), path, "")
	}
	require.NotContains(t, f.Calls, "attempts")
	f.Err = dispatcher.ErrCursor
	RequireField(t, Get(h, "/v1/attempts?cursor=x"), "query.cursor", "leave it out")
}

// listener hands one connection to a server.
type listener struct{ conns chan net.Conn }

func (l listener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l listener) Close() error { close(l.conns); return nil }
func (listener) Addr() net.Addr { return &net.TCPAddr{} }

// visit has a server answer one request by a handler.
func visit(t *testing.T, answer func(*httpapi.Stream) error, read func(conn net.Conn), want func(err error, took time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, conn := net.Pipe()
		done := make(chan struct{})
		srv := &http.Server{
			ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				defer close(done)
				begin := time.Now()
				err := answer(httpapi.NewStream(w))
				want(err, time.Since(begin))
			}),
		}
		l := listener{make(chan net.Conn, 1)}
		l.conns <- conn
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		_, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
		require.NoError(t, err)
		read(client)
		<-done
		_ = client.Close()
		_ = srv.Close()
		<-served
	})
}

func TestEventsAreWrittenAsBrowsersReadThem(t *testing.T) {
	visit(t, func(s *httpapi.Stream) error {
		require.NoError(t, s.Send(httpapi.Event{Name: "attempt", ID: "1", Data: map[string]string{"a": "x\ny"}}))
		require.NoError(t, s.Send(httpapi.Event{ID: "2"}))
		require.NoError(t, s.Send(httpapi.Event{Name: "end", Data: 7}))
		return s.Flush()
	}, func(conn net.Conn) {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
		require.True(t, resp.Close, "the next request goes elsewhere")
		var text strings.Builder
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			text.WriteString(lines.Text() + "\n")
		}
		require.Equal(t, "id: 1\nevent: attempt\ndata: {\"a\":\"x\\ny\"}\n\nid: 2\n:\n\nevent: end\ndata: 7\n\n", text.String())
	}, func(err error, _ time.Duration) { require.NoError(t, err) })
}

func TestAStreamOutlivesTheTimeouts(t *testing.T) {
	visit(t, func(s *httpapi.Stream) error {
		for range 20 {
			if err := s.Send(httpapi.Event{ID: "1"}); err != nil {
				return err
			}
			if err := s.Flush(); err != nil {
				return err
			}
			time.Sleep(15 * time.Second)
		}
		return nil
	}, func(conn net.Conn) {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		lines, n := bufio.NewScanner(resp.Body), 0
		for lines.Scan() {
			n++
		}
		require.Equal(t, 60, n)
	}, func(err error, took time.Duration) {
		require.NoError(t, err)
		require.Equal(t, 5*time.Minute, took)
	})
}

func TestACallerThatDoesNotReadIsCutOff(t *testing.T) {
	visit(t, func(s *httpapi.Stream) error {
		for {
			if err := s.Send(httpapi.Event{Name: "attempt", ID: "1", Data: strings.Repeat("x", 1000)}); err != nil {
				return err
			}
		}
	}, func(net.Conn) {}, func(err error, took time.Duration) {
		require.Error(t, err)
		require.Equal(t, 10*time.Second, took)
	})
}

// stream asks for events of attempts.
func stream(h http.Handler, query, key string, header ...string) *httptest.ResponseRecorder {
	r := newTestRequest("GET", "/v1/attempts"+query, "")
	r.Header.Set("Accept", "text/event-stream")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return Serve(h, r)
}

// shows is a log that tells some events and ends.
func shows(end error, all ...dispatcher.LogEvent) func(context.Context, func([]dispatcher.LogEvent) error) error {
	return func(_ context.Context, show func([]dispatcher.LogEvent) error) error {
		if err := show(all); err != nil {
			return err
		}
		return end
	}
}

func TestAttemptsAreFollowed(t *testing.T) {
	f := &Fake{OnFollow: shows(nil,
		dispatcher.LogEvent{At: "p0"}, dispatcher.LogEvent{Line: &LogPage.Lines[0], At: "p1"}, dispatcher.LogEvent{Gap: Now, At: "p2"})}
	w := stream(newTestAPI(t, f), "?destination=u_1&tenant=acme&outcome=dead&since=2026-01-02T03:04:05Z", "", "Last-Event-ID", "p9")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	parts := strings.Split(w.Body.String(), "\n\n")
	require.Equal(t, "id: p0\n:", parts[0])
	require.True(t, strings.HasPrefix(parts[1], "id: p1\nevent: attempt\ndata: {\"id\":\"u_1:m1\","), parts[1])
	require.Equal(t, "id: p2\nevent: gap\ndata: {\"complete_since\":\"2026-01-31T11:00:00.123Z\"}", parts[2])
	require.Equal(t, "p9", f.Behind)
	require.Equal(t, []string{"acme"}, f.LogFilter.Tenants)
	require.Equal(t, []dispatcher.Happening{"dead"}, f.LogFilter.Happenings)
	require.Len(t, f.LogFilter.Lanes, 1)
	require.False(t, f.LogFilter.Since.IsZero())
}

func TestAnEventHasWhatTheListHas(t *testing.T) {
	f := &Fake{LogPage: LogPage, OnFollow: shows(nil, dispatcher.LogEvent{Line: &LogPage.Lines[0], At: "p1"})}
	h := newTestAPI(t, f, WithKeys(t, "read-key-0123456789:read,full-key-0123456789:read+bodies"))
	for key, want := range map[string]string{"read-key-0123456789": `"response_bytes":3`, "full-key-0123456789": `"response_excerpt":"ok`} {
		body := stream(h, "", key).Body.String()
		require.Contains(t, body, want, key)
		r := newTestRequest("GET", "/v1/attempts", "")
		r.Header.Set("Authorization", "Bearer "+key)
		_, data, _ := strings.Cut(body, "data: ")
		require.Contains(t, Serve(h, r).Body.String(), strings.TrimSpace(data), key)
	}
	require.NotContains(t, stream(h, "", "read-key-0123456789").Body.String(), "response_excerpt")
	require.Equal(t, 401, stream(h, "", "").Code)
}

func TestAnEventStreamIsAnsweredToThoseThatAskForIt(t *testing.T) {
	f := &Fake{LogPage: LogPage, OnFollow: shows(nil, dispatcher.LogEvent{At: "p0"})}
	h := newTestAPI(t, f)
	for accept, want := range map[string]string{
		"text/event-stream": "text/event-stream", "text/event-stream, */*": "text/event-stream", "text/event-stream;q=0.5, text/html": "text/event-stream",
		"": "application/json", "*/*": "application/json", "application/json, text/event-stream;q=0.9": "application/json", "text/event-stream;q=0": "application/json",
	} {
		r := newTestRequest("GET", "/v1/attempts", "")
		r.Header.Set("Accept", accept)
		require.Equal(t, want, Serve(h, r).Header().Get("Content-Type"), accept)
		r.Method = "HEAD"
		require.Equal(t, "application/json", Serve(h, r).Header().Get("Content-Type"), accept)
	}
}

func TestAnEventStreamThatCanNotBeginIsAProblem(t *testing.T) {
	for want, f := range map[string]*Fake{
		"422 header.Last-Event-ID": {Err: fmt.Errorf("%w: other", dispatcher.ErrCursor)},
		"503 unavailable":          {Err: dispatcher.ErrUnavailable},
		"503 This instance stops":  {Err: dispatcher.ErrStopping},
	} {
		status, text, _ := strings.Cut(want, " ")
		w := stream(newTestAPI(t, f), "", "")
		require.Equal(t, status, fmt.Sprint(w.Code), want)
		require.Contains(t, w.Body.String(), text)
	}
	for _, query := range []string{"?limit=5", "?cursor=x", "?outcome=none", "?topic=a.*.b"} {
		require.Equal(t, 422, stream(newTestAPI(t, &Fake{}), query, "").Code, query)
	}
}

func TestAnEventStreamSaysWhyItEnds(t *testing.T) {
	ends := map[error]string{dispatcher.ErrBehind: "slow", dispatcher.ErrStopping: "stopping", callers.ErrCrowdedOut: "busy"}
	require.ElementsMatch(t, dispatcher.StreamEnds(), append(slices.Collect(maps.Values(ends)), "key"), "the next test has the last one")
	for err, want := range ends {
		f := &Fake{OnFollow: shows(err, dispatcher.LogEvent{At: "p0"})}
		require.Equal(t, "id: p0\n:\n\nevent: end\ndata: {\"reason\":\""+want+"\"}\n\n", stream(newTestAPI(t, f), "", "").Body.String())
	}
	f := &Fake{OnFollow: shows(errors.Join(errors.New("gone")), dispatcher.LogEvent{At: "p0"})}
	require.Equal(t, "id: p0\n:\n\n", stream(newTestAPI(t, f), "", "").Body.String())
}

func TestAnEventStreamEndsWhenItsKeyIsTakenAway(t *testing.T) {
	keys, err := callers.ParseAPIKeys("read-key-0123456789:read,other-key-0123456789:read")
	require.NoError(t, err)
	ring := callers.NewKeyRing(keys)
	f := &Fake{OnFollow: func(_ context.Context, show func([]dispatcher.LogEvent) error) error {
		if err := show([]dispatcher.LogEvent{{At: "p0"}}); err != nil {
			return err
		}
		fewer, err := callers.ParseAPIKeys("other-key-0123456789:read")
		if err != nil {
			return err
		}
		ring.Renew(fewer)
		return show([]dispatcher.LogEvent{{Line: &LogPage.Lines[0], At: "p1"}})
	}}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.Keys = ring })
	require.Equal(t, "id: p0\n:\n\nevent: end\ndata: {\"reason\":\"key\"}\n\n", stream(h, "", "read-key-0123456789").Body.String())
}

func TestEventStreamsAreBounded(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	f := &Fake{OnFollow: func(_ context.Context, show func([]dispatcher.LogEvent) error) error {
		begun <- struct{}{}
		<-end
		return show([]dispatcher.LogEvent{{At: "p0"}})
	}}
	h := newTestAPI(t, f, func(o *httpapi.Options) { o.Waiting = 2 })
	done := make(chan int, 2)
	for range 2 {
		go func() { done <- stream(h, "", "").Code }()
		<-begun
	}
	w := stream(h, "", "")
	require.Equal(t, 429, w.Code)
	require.Contains(t, w.Body.String(), "/problems/waiting")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, "close", w.Header().Get("Connection"), "it may not hold the other half of the connections meanwhile")
	close(end)
	require.Equal(t, 200, <-done)
	require.Equal(t, 200, <-done)
	go func() { <-begun }()
	require.Equal(t, 200, stream(h, "", "").Code, "their places are free again")
}

func TestTheClientFollowsAttempts(t *testing.T) {
	f := &Fake{OnFollow: shows(dispatcher.ErrBehind,
		dispatcher.LogEvent{At: "p0"}, dispatcher.LogEvent{Line: &LogPage.Lines[1], At: "p1"}, dispatcher.LogEvent{Gap: Now, At: "p2"})}
	c := newTestClient(t, f)
	var got []string
	err := c.Follow(t.Context(), client.AttemptFilter{Messages: []string{"m1"}}, "p9", func(e client.Event) error {
		switch {
		case e.Attempt != nil:
			got = append(got, e.ID+" "+e.Attempt.MessageID)
		case e.Gap != nil:
			got = append(got, e.ID+" gap "+e.Gap.CompleteSince.String())
		case e.End != nil:
			got = append(got, e.ID+" end "+e.End.Reason)
		default:
			got = append(got, e.ID)
		}
		return nil
	})
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.Equal(t, "p9", f.Behind)
	require.Equal(t, []string{"m1"}, f.LogFilter.Messages)
	require.Len(t, got, 4)
	require.Equal(t, []string{"p0", "p1 m2"}, got[:2])
	require.Contains(t, got[2], "p2 gap 2026-01-31")
	require.Equal(t, "p2 end slow", got[3])

	f.OnFollow, f.Err = nil, dispatcher.ErrUnavailable
	var p *client.Problem
	require.ErrorAs(t, c.Follow(t.Context(), client.AttemptFilter{}, "", nil), &p)
	require.Equal(t, 503, p.Status)
	gone := errors.New("gone")
	f.OnFollow = shows(nil, dispatcher.LogEvent{At: "p0"})
	require.ErrorIs(t, c.Follow(t.Context(), client.AttemptFilter{}, "", func(client.Event) error { return gone }), gone)
}
