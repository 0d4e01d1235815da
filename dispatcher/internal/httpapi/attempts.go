package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func refuseMessage(v string) string {
	return unless(dispatcher.ValidID(v), "must be the id of a message")
}

// attempts serves GET /v1/attempts.
func (s *server) attempts(ctx context.Context, q *request) (*response, error) {
	f, err := s.logFilter(ctx, q)
	if err != nil {
		return nil, err
	}
	page, err := s.svc.ReadLog(ctx, f, q.limit(), q.cursor())
	if err != nil {
		return nil, err
	}
	w := wire.LoggedPage{
		Data: convert(page.Lines, wireLogged), NextCursor: nextCursor(page.Next), LookedAt: page.LookedAt,
		CompleteSince: wire.Time{Time: page.CompleteSince},
	}
	if !q.bodies {
		for i := range w.Data {
			w.Data[i].ResponseExcerpt, w.Data[i].ResponseBytes = "", len(page.Lines[i].Attempt.Excerpt)
		}
	}
	return answerJSON(http.StatusOK, w)
}

func (s *server) logFilter(ctx context.Context, q *request) (f dispatcher.LogFilter, err error) {
	f = dispatcher.LogFilter{
		Tenants: q.all("tenant"), Messages: q.all("message"), Happenings: asWords[dispatcher.Happening](q.all("outcome")),
		Since: q.time("since"), Until: q.time("until"),
	}
	f.Lanes, err = s.lanesOf(ctx, q.all("destination"), f.Tenants)
	return f, err
}

func wireLogged(l *dispatcher.Logged) wire.LoggedAttempt {
	a := &l.Attempt
	w := wire.LoggedAttempt{
		ID: l.ID.String(), MessageID: l.ID.Message, Destination: string(l.ID.Lane), URL: a.URL, Address: a.Address,
		Topic: l.Topic, Tenant: l.Tenant, Subject: l.Subject, Attempt: a.Number, At: wire.Time{Time: a.At}, DurationMS: a.Duration.Milliseconds(),
		StatusCode: a.Status, Class: string(a.Class), Outcome: string(l.Happening), Error: strings.ToValidUTF8(a.Error, "�"),
		ResponseExcerpt: strings.ToValidUTF8(string(a.Excerpt), "�"),
		NextAttemptAt:   wire.Time{Time: a.Next}, Resend: a.Resend,
	}
	if l.Reason != "" {
		w.Error = string(l.Reason)
	}
	return w
}
