package notices

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// noticeBody is the body of a notice. Fields that do not apply are omitted. Only Detail,
// which is for the operator, may contain a path, an error, or the name of a key or an
// instance.
type noticeBody struct {
	Type        dispatcher.Notice `json:"type"`
	At          string            `json:"at"`
	Tenant      string            `json:"tenant,omitempty"`
	Endpoint    string            `json:"endpoint,omitempty"`
	UID         string            `json:"uid,omitempty"`
	Destination dispatcher.Lane   `json:"destination,omitempty"`
	Origin      string            `json:"origin,omitempty"`
	State       string            `json:"state,omitempty"`
	Since       string            `json:"since,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Waiting     *int              `json:"waiting,omitempty"`
	Status      int               `json:"last_status_code,omitempty"`
	Count       int               `json:"count,omitempty"`

	Job    string             `json:"job,omitempty"`
	Kind   dispatcher.JobKind `json:"kind,omitempty"`
	Done   *int               `json:"done,omitempty"`
	Failed *int               `json:"failed,omitempty"`
	Left   *int               `json:"left,omitempty"`

	Detail string `json:"detail,omitempty"`
}

// states maps most notices to the state after them.
var states = map[dispatcher.Notice]string{
	dispatcher.NoticeFailing: string(dispatcher.StateFailing), dispatcher.NoticeRecovered: string(dispatcher.StateActive),
	dispatcher.NoticeDisabled: string(dispatcher.StateDisabled), dispatcher.NoticeOpened: string(dispatcher.StateOpen),
	dispatcher.NoticeClosed: string(dispatcher.StateActive), dispatcher.NoticeUnhealthy: "unhealthy", dispatcher.NoticeHealthy: "healthy",
	dispatcher.NoticeLost:       "lost",
	dispatcher.NoticeEgressDown: "unhealthy", dispatcher.NoticeEgressUp: "healthy",
}

// timeOf returns a time in the format of the API.
func timeOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// subscribersMost is the highest number of endpoints of one tenant that get a notice. If all
// endpoints fail and each gets a notice about each other one, the number of messages is the
// square of their number.
const subscribersMost = 100

// messages returns the messages for news: one to the operator, and one to each subscribed
// endpoint of the lane's tenant. A notice about a lane is never sent to that lane.
func (n *Notices) messages(ctx context.Context, news *dispatcher.News) (batch []*dispatcher.Message, err error) {
	b := noticeBody{
		Type: news.Notice, At: timeOf(news.At), Destination: news.Lane, State: news.State, Since: timeOf(news.Since),
		Reason: news.Reason, Status: news.Status, Count: news.Count,
	}
	if b.State == "" {
		b.State = states[news.Notice]
	}
	if j := news.Job; j != nil {
		b.Job, b.Kind, b.Done, b.Failed, b.Left = j.ID, j.Kind, &j.Done, &j.Failed, &j.Left
	}
	var listeners []*dispatcher.Endpoint
	if news.Lane != "" {
		if err := n.describe(ctx, news.Lane, &b); err != nil {
			return nil, err
		}
		if listeners, err = n.listeners(ctx, news, b.Tenant); err != nil {
			return nil, err
		}
	}
	for _, e := range listeners {
		m := newMessage(news, b, e.ID)
		m.Endpoint, m.Tenant = e.ID, e.Tenant
		batch = append(batch, m)
	}
	if n.ops != "" && news.Notice != dispatcher.NoticeDead {
		b.Detail = news.Detail
		m := newMessage(news, b, n.mark)
		m.URL = n.o.URL
		batch = append(batch, m)
	}
	return batch, nil
}

// describe sets the fields of a lane that are known.
func (n *Notices) describe(ctx context.Context, lane dispatcher.Lane, b *noticeBody) error {
	states, err := n.o.Lanes(ctx, []dispatcher.Lane{lane})
	if err != nil {
		return err
	}
	if lane.IsEndpoint() {
		b.Endpoint = string(lane)
	}
	for i := range states {
		s := &states[i]
		b.Tenant, b.UID, b.Origin, b.Waiting = s.Tenant, s.UID, s.URL, &s.Waiting
		if b.State == string(dispatcher.StateActive) {
			b.State = string(stoppedOr(s, dispatcher.StateActive))
		}
	}
	return nil
}

// stoppedOr returns the state of a paused or disabled lane, and state for any other. A lane
// that has recovered may still be paused.
func stoppedOr(s *dispatcher.LaneState, state dispatcher.EndpointState) dispatcher.EndpointState {
	now, why := s.Standing()
	switch {
	case why == dispatcher.WhyUnverified:
		return dispatcher.StateUnverified
	case now == dispatcher.StatePaused || now == dispatcher.StateDisabled || now == dispatcher.StateDeleted:
		return now
	}
	return state
}

// listeners returns the endpoints that get the news. News without a tenant go to the
// operator only. Deaths are not sent to OPS_URL; only endpoints that subscribe get them.
func (n *Notices) listeners(ctx context.Context, news *dispatcher.News, tenant string) (list []*dispatcher.Endpoint, err error) {
	if tenant == "" && news.Notice != dispatcher.NoticeDead {
		return nil, nil
	}
	matching, err := n.o.Listeners(ctx, tenant, string(news.Notice))
	if err != nil {
		return nil, err
	}
	for _, e := range matching {
		if e.Lane() != news.Lane && !e.Disabled && len(list) < subscribersMost {
			list = append(list, e)
		}
	}
	return list, nil
}

// newMessage returns a notice for one destination.
func newMessage(news *dispatcher.News, b noticeBody, to string) *dispatcher.Message {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // it has texts and numbers only, so it can't fail
	}
	parts := []string{news.Key, to}
	if news.Lane != "" {
		parts = []string{string(news.Lane), news.Key, to}
	}
	return &dispatcher.Message{
		ID: news.Notice.ID(parts...), Topic: string(news.Notice), Body: text, ContentType: "application/json",
	}
}

// hashed replaces a text in an id.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
