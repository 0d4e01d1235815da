package traces_test

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher/trace"
)

// The archive keeps the span of the publish, so a message that was restored continues its trace.
func TestARestoredMessageContinuesItsTrace(t *testing.T) {
	c := newSpans(t)
	url := pgtest.New(t)
	settings := to(c, "ARCHIVE_URL="+url, "ENCRYPTION_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "LADDER=1h")
	w := newWorld(t, settings...)
	r := newReceiver(t, 1)
	w.endpoint(map[string]any{"url": r.URL, "trace": true})
	w.publish(traceparent, map[string]any{"id": "m-1", "topic": "order.paid", "body": 1})
	published := c.wait(t, 1, "of the publish", named("POST /v1/messages", "m-1"))[0]
	r.wait(t, 1)
	w.mustArchive(url, "m-1")
	w.instance.Kill()
	require.NoError(t, w.server.Client.FlushAll(t.Context()).Err())
	w.restore(settings...)

	w.start(settings...)
	status, answer := w.call("POST", "/v1/messages/m-1/retry", nil, map[string]any{})
	require.Equal(t, 202, status, "%v", answer)
	sent := r.wait(t, 2)[1]
	second := c.wait(t, 1, "of the second attempt", func(s span) bool { return s.name == "attempt" && s.attributes[trace.Attempt] == 2 })[0]
	require.Equal(t, []string{callersTrace, published.id}, []string{second.traceID, second.parent})
	require.Equal(t, []string{published.id}, second.linkedTo)
	require.Equal(t, "00-"+callersTrace+"-"+second.id+"-01", sent.Get("Traceparent"), "its endpoint still has trace: true")
}

// mustArchive waits until an archive has the first attempt of a message.
func (w *world) mustArchive(url, id string) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), url)
	require.NoError(w.t, err)
	defer conn.Close(context.Background()) //nolint:errcheck // it only reads
	require.NoError(w.t, kit.Until(w.t.Context(), id+" is archived", func() error {
		var attempts int
		if err := conn.QueryRow(w.t.Context(), "select attempts from hookladder.open where id = $1", id).Scan(&attempts); err != nil || attempts != 1 {
			return fmt.Errorf("%d attempts: %v", attempts, err)
		}
		return nil
	}))
}

// restore runs hookladder restore.
func (w *world) restore(settings ...string) {
	w.t.Helper()
	path, err := kit.FastBinary()
	require.NoError(w.t, err)
	cmd := exec.CommandContext(w.t.Context(), path, "restore")
	cmd.Env = append([]string{"REDIS_URL=" + w.redis}, settings...)
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	require.Contains(w.t, string(out), "restored 1 unfinished deliver")
}
