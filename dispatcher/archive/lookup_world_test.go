package archive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// lookupWorld is a store and an archive of it, in memory. What the store forgets was archived.
type lookupWorld struct {
	testing.TB
	mu        sync.Mutex // guards the rest: a list asks store and archive at a time
	rnd       *rand.Rand
	now       time.Time
	live      map[dispatcher.DeliveryID]dispatcher.Delivery // what the store has
	kept      map[dispatcher.DeliveryID]archive.End         // the newest ends that are archived
	views     map[string]dispatcher.MessageView
	found     map[string]*archive.Found
	forgotten dispatcher.Forgotten
	lost      bool   // the store lost its messages
	read      func() // runs after a message was read in the archive
	away      bool
	comparing bool // the archive was not compared with the store since a gap
	asked     int  // look-ups in the archive
	between   func()
}

func newLookupWorld(t testing.TB, seed uint64) (*lookupWorld, *archive.Lookup) {
	w := &lookupWorld{
		TB: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: start,
		live: map[dispatcher.DeliveryID]dispatcher.Delivery{}, kept: map[dispatcher.DeliveryID]archive.End{},
		views: map[string]dispatcher.MessageView{}, found: map[string]*archive.Found{},
	}
	return w, archive.NewLookup(archive.LookupOptions{
		Live: w, Lanes: w, Store: w, Cursors: w, Archive: finder{w}, Log: slog.New(slog.DiscardHandler),
		Comparing: func(context.Context) (bool, error) {
			if w.away {
				return false, archive.ErrUnavailable
			}
			return w.comparing, nil
		},
		Decode: func(id string, head []byte) (*dispatcher.Message, error) {
			if string(head) == "broken" {
				return nil, fmt.Errorf("broken")
			}
			return &dispatcher.Message{ID: id, URL: string(head), Topic: "a.b", CreatedAt: start}, nil
		},
	})
}

// The store.

func (w *lookupWorld) Deliveries(_ context.Context, f dispatcher.Filter) (page dispatcher.Page, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Order == dispatcher.OrderAccepted {
		return w.accepted(f)
	}
	var list []dispatcher.Delivery
	for _, d := range w.live {
		if f.Part != dispatcher.PartAll && d.Status.Ended() != (f.Part == dispatcher.PartEnded) || len(f.Statuses) > 0 && !slices.Contains(f.Statuses, d.Status) {
			continue
		}
		if f.From == nil || placeOf(d).Compare(*f.From) < 0 {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int { return placeOf(b).Compare(placeOf(a)) })
	if f.Part != dispatcher.PartEnded {
		from := 0
		if strings.Contains(f.Cursor, "\n") {
			return page, dispatcher.ErrCursor
		}
		if f.Cursor != "" {
			_, err = fmt.Sscan(f.Cursor, &from)
			require.NoError(w, err)
		}
		list = list[from:]
		if len(list) > f.Limit {
			list, page.Next = list[:f.Limit], fmt.Sprint(from+f.Limit)
		}
		page.Deliveries = list
		return page, nil
	}
	limit := f.Limit
	if len(list) > 1 && w.rnd.IntN(3) == 0 { // it looked at enough
		limit = min(limit, 1+w.rnd.IntN(len(list)))
	}
	if len(list) > limit {
		list = list[:limit]
		page.Reached, page.Next = new(placeOf(list[limit-1])), "store"
	}
	page.Deliveries = list
	defer w.between() // the store changes while the archive is asked
	return page, nil
}

// accepted is a page of the store's deliveries, the newest accepted first.
func (w *lookupWorld) accepted(f dispatcher.Filter) (page dispatcher.Page, err error) {
	f.From, _ = w.ListPlace(w.Context(), f)
	w.between()
	for _, d := range w.live {
		if f.From == nil || acceptedPlace(d).Compare(*f.From) < 0 {
			page.Deliveries = append(page.Deliveries, d)
		}
	}
	slices.SortFunc(page.Deliveries, func(a, b dispatcher.Delivery) int { return acceptedPlace(b).Compare(acceptedPlace(a)) })
	limit := f.Limit
	if n := len(page.Deliveries); n > 1 && w.rnd.IntN(3) == 0 { // it looked at enough
		limit = min(limit, 1+w.rnd.IntN(n))
	}
	if len(page.Deliveries) > limit {
		page.Deliveries = page.Deliveries[:limit]
		page.Reached, page.Next = new(acceptedPlace(page.Deliveries[limit-1])), ""
		page.Next, _ = w.ListCursor(w.Context(), f, *page.Reached)
	}
	defer w.between()
	return page, nil
}

func acceptedPlace(d dispatcher.Delivery) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: d.Created, ID: d.ID.String()}
}

func (w *lookupWorld) SealCursor(_ context.Context, list string, place any) (string, error) {
	text, err := json.Marshal(place)
	return list + "\n" + string(text), err
}

func (w *lookupWorld) OpenCursor(_ context.Context, list, cursor string, place any) error {
	of, text, _ := strings.Cut(cursor, "\n")
	if of != list {
		return dispatcher.ErrCursor
	}
	return json.Unmarshal([]byte(text), place)
}

func (w *lookupWorld) ListPlace(_ context.Context, f dispatcher.Filter) (*dispatcher.EndPlace, error) {
	if f.Cursor == "" {
		return f.From, nil
	}
	return new(parsed(w, f.Cursor)), nil
}

func (w *lookupWorld) ListCursor(_ context.Context, _ dispatcher.Filter, at dispatcher.EndPlace) (string, error) {
	return w.EndedCursor(w.Context(), dispatcher.EndedFilter{}, at)
}

func (w *lookupWorld) Ended(_ context.Context, name string, f dispatcher.EndedFilter) (page dispatcher.EndedPage, err error) {
	page.Lane, page.Now, page.CompleteSince = dispatcher.Lane(name), w.now, w.forgotten.Since(f.Statuses)
	if f.Cursor != "" {
		page.From = parsed(w, f.Cursor)
	}
	page.Place = page.From
	var list []dispatcher.Delivery
	for _, d := range w.live {
		if string(d.ID.Lane) == name && d.Status.Ended() && d.Ended.Before(w.now) && !d.Ended.Before(f.Since) && placeOf(d).Compare(page.From) > 0 {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b dispatcher.Delivery) int { return placeOf(a).Compare(placeOf(b)) })
	if len(list) > f.Limit {
		list, page.More = list[:f.Limit], true
	}
	if n := len(list); n > 0 {
		page.Place = placeOf(list[n-1])
	}
	page.Deliveries, page.Resume = list, endedCursor(page.Place)
	defer w.between()
	return page, nil
}

func (w *lookupWorld) EndedCursor(_ context.Context, _ dispatcher.EndedFilter, at dispatcher.EndPlace) (string, error) {
	return endedCursor(at), nil
}

func endedCursor(at dispatcher.EndPlace) string {
	return fmt.Sprintf("%d %s", at.At.UnixMilli(), at.ID)
}

func parsed(t testing.TB, cursor string) (at dispatcher.EndPlace) {
	ms := int64(0)
	text, id, _ := strings.Cut(cursor, " ")
	_, err := fmt.Sscan(text, &ms)
	require.NoError(t, err)
	return dispatcher.EndPlace{At: time.UnixMilli(ms).UTC(), ID: id}
}

func (w *lookupWorld) Message(_ context.Context, id string) (dispatcher.MessageView, error) {
	v, ok := w.views[id]
	if w.lost {
		return v, &dispatcher.Emptied{Home: true}
	}
	if !ok {
		return v, dispatcher.ErrNotFound
	}
	return v, nil
}

func (w *lookupWorld) Cancel(_ context.Context, id string, _ dispatcher.Lane) ([]dispatcher.Delivery, error) {
	_, err := w.Message(context.Background(), id)
	return nil, err
}

func (w *lookupWorld) Retry(_ context.Context, id string, lane dispatcher.Lane, _ bool) ([]dispatcher.Retried, error) {
	v, err := w.Message(context.Background(), id)
	if err == nil && lane != "" && !slices.ContainsFunc(v.Deliveries, func(d dispatcher.Delivery) bool { return d.ID.Lane == lane }) {
		err = dispatcher.ErrNoDelivery
	}
	return nil, err
}

func (w *lookupWorld) Address(_ context.Context, list []dispatcher.Delivery) error {
	for i := range list {
		if list[i].ID.Lane.IsEndpoint() {
			list[i].URL = "https://present.example/"
		}
	}
	return nil
}

func (w *lookupWorld) Lane(_ context.Context, destination, tenant string) (dispatcher.Lane, error) {
	return dispatcher.Lane(destination + " " + tenant), nil
}

func (w *lookupWorld) MessageTenant(_ context.Context, id string) (string, error) {
	v, err := w.Message(context.Background(), id)
	return v.Message.Tenant, err
}

func (w *lookupWorld) Forgotten(context.Context) (dispatcher.Forgotten, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forgotten, nil
}

func (w *lookupWorld) Has(_ context.Context, ids []dispatcher.DeliveryID) (has []bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		_, ok := w.live[id]
		has = append(has, ok)
	}
	return has, nil
}

// The archive.
type finder struct{ w *lookupWorld }

func (f finder) Find(_ context.Context, id string) (*archive.Found, error) {
	f.w.asked++
	if f.w.away {
		return nil, archive.ErrUnavailable
	}
	if found := f.w.found[id]; found != nil {
		if f.w.read != nil {
			f.w.read()
		}
		return found, nil
	}
	return nil, dispatcher.ErrNotFound
}

func (f finder) Since(context.Context) (time.Time, error) {
	if f.w.away {
		return time.Time{}, archive.ErrUnavailable
	}
	return start, nil
}

func (f finder) Ends(ctx context.Context, q archive.Filter) (page archive.EndPage, err error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if ctx.Err() != nil {
		return page, ctx.Err()
	}
	f.w.asked++
	if f.w.away {
		return page, archive.ErrUnavailable
	}
	place := (*archive.End).Place
	if q.Accepted {
		place = func(e *archive.End) dispatcher.EndPlace { return dispatcher.EndPlace{At: e.Created, ID: e.ID.String()} }
	}
	var list []archive.End
	for _, e := range f.w.kept {
		order := 0
		if q.After != nil {
			if order = place(&e).Compare(*q.After); !q.Oldest {
				order = -order
			}
		}
		if (q.After == nil || order > 0) && (len(q.Lanes) == 0 || slices.Contains(q.Lanes, e.ID.Lane)) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b archive.End) int {
		if q.Oldest {
			return place(&a).Compare(place(&b))
		}
		return place(&b).Compare(place(&a))
	})
	limit := q.Limit
	if len(list) > 1 && f.w.rnd.IntN(3) == 0 {
		limit = min(limit, 1+f.w.rnd.IntN(len(list)))
	}
	if len(list) > limit {
		list = list[:limit]
		page.Reached = new(place(&list[limit-1]))
	}
	page.Ends = list
	return page, nil
}

func placeOf(d dispatcher.Delivery) dispatcher.EndPlace {
	return dispatcher.EndPlace{At: d.Ended, ID: d.ID.String()}
}

// end has a delivery end now. It is archived at once, or when it is forgotten.
func (w *lookupWorld) end(id dispatcher.DeliveryID) {
	d := dispatcher.Delivery{ID: id, Status: dispatcher.EndStatuses()[w.rnd.IntN(2)], Ended: w.now, Topic: "a.b", Created: w.now.Add(-time.Duration(w.rnd.IntN(20)) * time.Second)}
	w.live[id] = d
	if w.rnd.IntN(2) == 0 {
		w.archive(d)
	}
}

func (w *lookupWorld) archive(d dispatcher.Delivery) {
	kind := archive.Delivered
	if d.Status == dispatcher.StatusDead {
		kind = archive.Dead
	}
	w.kept[d.ID] = archive.End{Event: archive.Event{ID: d.ID, At: d.Ended, Kind: kind, Topic: "a.b"}, Created: d.Created, Head: []byte("https://own.example/")}
}

// forget has the store forget its oldest ends: of those that died fewer.
func (w *lookupWorld) forget(n int) {
	ends := slices.SortedFunc(maps.Values(w.live), func(a, b dispatcher.Delivery) int { return placeOf(a).Compare(placeOf(b)) })
	spare := w.rnd.IntN(4) > 0 // those that died
	for _, d := range ends {
		if !d.Status.Ended() || n == 0 {
			continue
		}
		newest := &w.forgotten.Finished
		if d.Status == dispatcher.StatusDead {
			if spare {
				continue
			}
			newest = &w.forgotten.Dead
		}
		if d.Ended.After(*newest) {
			*newest = d.Ended
		}
		w.archive(d)
		delete(w.live, d.ID)
		n--
	}
}

// grow has some deliveries end, a few of them in one ms.
func (w *lookupWorld) grow(from, n int) {
	for i := range n {
		if w.rnd.IntN(3) > 0 {
			w.now = w.now.Add(time.Duration(1+w.rnd.IntN(3000)) * time.Millisecond)
		}
		w.end(dispatcher.DeliveryID{Lane: dispatcher.Lane([]string{"ep_a", "u_b"}[w.rnd.IntN(2)]), Message: fmt.Sprint("m", from+i)})
	}
}
