package notices_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/notices"
)

const (
	opsURL = "https://ops.example/token"
	u1     = d.Lane("u_1")
)

// store keeps what is published, as the queue does, for several instances.
type store struct {
	mu        sync.Mutex // guards what follows
	kept      map[string]*d.Message
	order     []*d.Message
	fails     func(m *d.Message) error // nil: nothing does
	asked     int
	states    map[d.Lane]d.LaneState
	listeners map[string][]*d.Endpoint
	info      d.StoreInfo
}

func newStore() *store {
	return &store{kept: map[string]*d.Message{}, states: map[d.Lane]d.LaneState{
		u1:     {URL: "https://shop.example", LaneCount: d.LaneCount{Waiting: 7}},
		"u_2":  {URL: "https://shop.example", Tenant: "shop"},
		"ep_1": {URL: "https://one.example", Tenant: "shop", UID: "one"},
	}, listeners: map[string][]*d.Endpoint{}}
}

func (s *store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *store) publish(_ context.Context, batch []*d.Message) ([]d.Published, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	out := make([]d.Published, len(batch))
	for i, m := range batch {
		if s.fails != nil {
			if out[i].Err = s.fails(m); out[i].Err != nil {
				continue
			}
		}
		switch there := s.kept[m.ID]; {
		case there == nil:
			s.kept[m.ID] = m
			s.order = append(s.order, m)
			out[i].Result = d.Accepted
		case there.Digest() == m.Digest():
			out[i].Result = d.Duplicate
		default:
			out[i].Result = d.Conflict
		}
	}
	return out, nil
}

func (s *store) lanes(_ context.Context, lanes []d.Lane) (list []d.LaneState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range lanes {
		if state, ok := s.states[lane]; ok {
			list = append(list, state)
		}
	}
	return list, nil
}

func (s *store) listen(_ context.Context, tenant, topic string) (list []*d.Endpoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.listeners[tenant] {
		if e.Matches(topic) {
			list = append(list, e)
		}
	}
	return list, nil
}

func (s *store) known(_ context.Context, ids []string) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make([]bool, len(ids))
	for i, id := range ids {
		known[i] = s.kept[id] != nil
	}
	return known, nil
}

func (s *store) readInfo(context.Context) (d.StoreInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info, nil
}

// start runs an instance's notices until the test ends.
func (s *store) start(t *testing.T, url string) *notices.Notices {
	n, _ := s.startLogged(t, url)
	return n
}

func (s *store) startLogged(t *testing.T, url string) (*notices.Notices, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	n, err := notices.New(notices.Options{
		URL: url, Publish: s.publish, Lanes: s.lanes, Listeners: s.listen, Known: s.known, Store: s.readInfo, Now: time.Now,
		PollEvery: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return n, &log
}

// published are the messages so far: topic, where each went, and its body.
func (s *store) published(t *testing.T) (all []string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.order {
		to := m.Endpoint
		if m.URL != "" {
			to = "ops"
			require.Equal(t, opsURL, m.URL)
			require.Empty(t, m.Tenant)
		}
		require.Empty(t, m.Validate(d.Policy{})[1:], "but for its topic")
		require.Equal(t, "application/json", m.ContentType)
		var b map[string]any
		require.NoError(t, json.Unmarshal(m.Body, &b))
		require.Equal(t, m.Topic, b["type"])
		all = append(all, strings.TrimPrefix(m.Topic, "hookladder.")+" to "+to)
	}
	s.order = nil
	return all
}

func opened(lane d.Lane, key string) d.News {
	return d.News{Notice: d.NoticeOpened, At: time.Now(), Key: key, Lane: lane, Reason: "breaker", Status: 503, Detail: "secret of the operator"}
}

func TestAnOperatorIsToldWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		n := s.start(t, opsURL)
		n.Notify(opened(u1, "17"))
		synctest.Wait()
		require.Len(t, s.order, 1)
		m := s.order[0]
		require.JSONEq(t, `{"type":"hookladder.lane.opened","at":"2000-01-01T00:00:00.000Z","destination":"u_1","origin":"https://shop.example",
			"state":"open","reason":"breaker","waiting":7,"last_status_code":503,"detail":"secret of the operator"}`, string(m.Body))
		require.Regexp(t, `^hl_opened_u_1_17_[0-9a-f]{12}$`, m.ID)
		require.Equal(t, []string{"lane.opened to ops"}, s.published(t))
	})
}

func TestATenantIsToldOfItsOwnAndWithoutDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		named := []string{"hookladder.*"}
		s.listeners["shop"] = []*d.Endpoint{
			{ID: "ep_1", Tenant: "shop", Topics: named}, {ID: "ep_2", Tenant: "shop", Topics: named},
			{ID: "ep_3", Tenant: "shop", Topics: []string{"*"}}, {ID: "ep_4", Tenant: "shop", Topics: named, Disabled: true},
		}
		s.listeners["other"] = []*d.Endpoint{{ID: "ep_5", Tenant: "other", Topics: named}}
		s.listeners[""] = []*d.Endpoint{{ID: "ep_6", Topics: named}}
		n := s.start(t, opsURL)
		n.Notify(opened("ep_1", "17"))
		synctest.Wait()
		require.Len(t, s.order, 2)
		require.JSONEq(t, `{"type":"hookladder.lane.opened","at":"2000-01-01T00:00:00.000Z","tenant":"shop","endpoint":"ep_1","uid":"one",
			"destination":"ep_1","origin":"https://one.example","state":"open","reason":"breaker","waiting":0,"last_status_code":503}`, string(s.order[0].Body))
		require.Equal(t, "shop", s.order[0].Tenant)
		require.Equal(t, []string{"lane.opened to ep_2", "lane.opened to ops"}, s.published(t), "not about itself, not to others")
		n.Notify(opened(u1, "18"))
		n.Notify(d.News{Notice: d.NoticeLost, Key: "a", At: time.Now()})
		require.Equal(t, []string{"lane.opened to ops", "instance.lost to ops"}, s.published(t), "no tenant's")
		s.start(t, "").Notify(opened("u_2", "19"))
		require.Equal(t, []string{"lane.opened to ep_1", "lane.opened to ep_2"}, s.published(t), "without an OPS_URL")
	})
}

func TestNothingIsToldOfTheLaneOfTheOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		u, err := d.ParseURL("https://ops.example/other")
		require.NoError(t, err)
		n := s.start(t, opsURL)
		n.Notify(opened(d.URLLane(u, ""), "17"))
		n.Notify(d.News{Notice: d.NoticeDead, Lane: d.URLLane(u, ""), At: time.Now()})
		require.Empty(t, s.published(t))
	})
}

func TestWhatIsToldTwiceIsPublishedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		one, two := s.start(t, opsURL), s.start(t, opsURL)
		for range 3 {
			one.Notify(opened(u1, "17"))
			two.Notify(opened(u1, "17"))
			synctest.Wait()
		}
		require.Len(t, s.published(t), 1)
		require.Equal(t, 2, s.asked, "each remembers what it told")
		one.Notify(opened(u1, "18"))
		require.Len(t, s.published(t), 1)
	})
}

func TestWhatTheStoreDoesNotTakeIsPublishedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.fails = func(m *d.Message) error {
			if strings.Contains(m.ID, "u_1") {
				return fmt.Errorf("store: %w", d.ErrUnavailable)
			}
			return nil
		}
		n := s.start(t, opsURL)
		n.Notify(opened(u1, "17"))
		n.Notify(opened("u_2", "17"))
		time.Sleep(time.Second)
		require.Equal(t, []string{"lane.opened to ops"}, s.published(t), "one that can't be published holds up no other")
		s.set(func() { s.fails = nil })
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"lane.opened to ops"}, s.published(t))
	})
}

func TestAFullStoreIsNotFilledWithNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.fails = func(*d.Message) error { return d.ErrFull }
		n, log := s.startLogged(t, opsURL)
		n.Notify(opened(u1, "17"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1, s.asked, "not repeated")
		require.Contains(t, log.String(), "notices were not sent")
		require.Contains(t, log.String(), "notices=1")
		s.set(func() { s.fails = nil })
		n.Notify(opened(u1, "17"))
		require.Len(t, s.published(t), 1, "what was not told may be told again")
	})
}

func TestNoMoreWaitsThanMay(t *testing.T) {
	for detail, want := range map[string]int{"": 1000, strings.Repeat("x", 1000): 1 + (512<<10-311)/(300+4+len("breaker")+512)} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			s.fails = func(*d.Message) error { return d.ErrUnavailable }
			n, log := s.startLogged(t, opsURL)
			news := opened(u1, "1000")
			news.Detail = ""
			n.Notify(news)
			synctest.Wait() // it waits for another try
			for i := range 1999 {
				news.Detail, news.Key = detail, fmt.Sprint(1001+i)
				n.Notify(news)
			}
			s.set(func() { s.fails = nil })
			time.Sleep(2 * time.Minute)
			require.Equal(t, want, len(s.published(t)))
			require.Contains(t, log.String(), fmt.Sprintf("notices=%d", 2000-want))
		})
	}
}

func TestDeathsAreCountedByLaneAndMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.listeners["shop"] = []*d.Endpoint{{ID: "ep_9", Tenant: "shop", Topics: []string{"hookladder.delivery.dead"}}, {ID: "ep_8", Tenant: "shop", Topics: []string{"hookladder.*"}}}
		n := s.start(t, opsURL)
		dies := func(reason d.DeadReason) {
			n.Notify(d.News{Notice: d.NoticeDead, Lane: "u_2", At: time.Now(), Reason: string(reason), Status: 500})
		}
		dies(d.ReasonExhausted)
		synctest.Wait()
		require.Contains(t, string(s.order[0].Body), `"count":1`)
		require.Contains(t, string(s.order[0].Body), `"reason":"exhausted","waiting":0,"last_status_code":500`)
		require.Equal(t, []string{"delivery.dead to ep_9"}, s.published(t), "at once, and not to the operator")
		for range 500 {
			dies(d.ReasonExhausted)
		}
		dies(d.ReasonGone)
		time.Sleep(59 * time.Second)
		require.Empty(t, s.published(t))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, s.order, 1)
		require.Contains(t, string(s.order[0].Body), `"count":501`)
		require.NotContains(t, string(s.order[0].Body), "reason", "they differ")
		s.published(t)
		time.Sleep(time.Hour)
		require.Empty(t, s.published(t))
	})
}

func TestDeathsThatAnotherInstanceMetAreToldInTheNextMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.listeners["shop"] = []*d.Endpoint{{ID: "ep_9", Tenant: "shop", Topics: []string{"hookladder.delivery.dead"}}}
		for i := range 2 {
			n := s.start(t, opsURL)
			for range 1 + i {
				n.Notify(d.News{Notice: d.NoticeDead, Lane: "u_2", At: time.Now()})
			}
			synctest.Wait()
		}
		require.Len(t, s.published(t), 1)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, s.order, 1)
		require.Contains(t, string(s.order[0].Body), `"count":2`)
	})
}

func TestTheStoreIsToldAsUnhealthyWhileItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.start(t, opsURL)
		s.start(t, opsURL)
		require.Empty(t, s.published(t))
		s.set(func() { s.info.Durable = d.No })
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		require.Contains(t, string(s.order[0].Body), `"state":"unhealthy","since":"2000-01-01T00:01:00.000Z","reason":"not_durable"`)
		require.Equal(t, []string{"store.unhealthy to ops"}, s.published(t), "of two instances once")
		time.Sleep(3 * time.Hour)
		require.Equal(t, []string{"store.unhealthy to ops", "store.unhealthy to ops", "store.unhealthy to ops"}, s.published(t))
		s.set(func() { s.info.Durable = d.Yes })
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Contains(t, string(s.order[0].Body), `"state":"healthy","since":"2000-01-01T00:01:00.000Z","reason":"not_durable"`)
		require.Equal(t, []string{"store.healthy to ops"}, s.published(t))
	})
}

func TestInstancesThatMeetAFaultSecondsApartTellItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		one, two := s.start(t, opsURL), s.start(t, opsURL)
		lost := func(n *notices.Notices, notice d.Notice) {
			n.Notify(d.News{Notice: notice, At: time.Now(), Since: time.Now(), Reason: "unreachable"})
			synctest.Wait()
		}
		time.Sleep(58 * time.Second)
		lost(one, d.NoticeUnhealthy)
		time.Sleep(4 * time.Second)
		lost(two, d.NoticeUnhealthy)
		time.Sleep(4 * time.Second)
		lost(one, d.NoticeHealthy)
		lost(two, d.NoticeHealthy)
		require.Equal(t, []string{"store.unhealthy to ops", "store.healthy to ops"}, s.published(t))
		lost(one, d.NoticeHealthy)
		require.Empty(t, s.published(t), "it was so")
	})
}
