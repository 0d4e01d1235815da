package model

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// listWalk is a list that is read page by page while other things happen.
type listWalk struct {
	filter dispatcher.Filter
	there  map[dispatcher.DeliveryID]sight // deliveries that it must show, as long as they stay
	shown  map[dispatcher.DeliveryID]int
}

// sight is a delivery as it was when a walk began.
type sight struct {
	*modelDelivery
	found redisqtest.Found
}

// mostWalks is the number of lists that are walked at a time.
const mostWalks = 3

// doWalk begins to walk a list, or reads the next page of one. At its end it
// has shown each delivery once that was in the list throughout. It has shown no
// other one twice. A delivery that is sent again may end once more. A list of
// all shows a moved delivery again.
func (m *model) doWalk() {
	m.Helper()
	if len(m.walks) < mostWalks {
		m.walks = append(m.walks, m.newWalk())
	}
	i := m.rng.IntN(len(m.walks))
	w := m.walks[i]
	w.filter.Limit = pick(m.rng, 1, 2, 7)
	page, err := m.Good.List(m.Ctx, w.filter)
	require.NoError(m, err)
	for _, d := range page.Deliveries {
		w.shown[d.ID]++
		require.True(m, w.shown[d.ID] == 1 || w.filter.Order != dispatcher.OrderAccepted, "%s is shown twice by %+v", d.ID, w.filter)
	}
	if w.filter.Cursor = page.Next; page.Next != "" {
		return
	}
	m.walks = slices.Delete(m.walks, i, i+1)
	for id, was := range w.there {
		d := m.deliveries[id]
		stayed := d == was.modelDelivery && (w.filter.Order != dispatcher.OrderEnded || d.Found == was.found)
		require.True(m, !stayed || w.shown[id] == 1 || w.shown[id] > 1 && w.filter.Order == "", "%s is shown %d times by %+v: %+v, now %+v", id, w.shown[id], w.filter, was.found, m.deliveries[id])
	}
}

// setBackWalks ends the checks of walks of all deliveries, because these walks
// don't know which deliveries moved after the clock was set back.
func (m *model) setBackWalks() {
	for _, w := range m.walks {
		if w.filter.Order == "" {
			clear(w.there)
		}
	}
}

// newWalk chooses a list.
func (m *model) newWalk() *listWalk {
	w := &listWalk{there: map[dispatcher.DeliveryID]sight{}, shown: map[dispatcher.DeliveryID]int{}}
	f := &w.filter
	switch m.rng.IntN(6) {
	case 0:
		f.Lanes = []dispatcher.Lane{pick(m.rng, modelLanes...), pick(m.rng, modelLanes...)}
	case 1:
		f.Tenants = []string{"t1"}
	case 2:
		f.SubjectLike = []string{"ORDER #17"}
	case 3:
		f.SubjectEnds = []string{"4711"}
	case 4:
		f.Lanes, f.Order = []dispatcher.Lane{pick(m.rng, modelLanes...)}, dispatcher.OrderEnded
	}
	require.NoError(m, f.Arrange())
	m.logf("walk %+v", *f)
	for id, d := range m.deliveries {
		kept := m.messages[recordKey{m.Partition(id.Lane), id.Message}]
		of := dispatcher.Delivery{ID: id, Tenant: kept.message.Tenant, Subject: kept.message.Subject, Status: m.status(id), Created: kept.message.CreatedAt}
		if f.Order == "" && of.Created.After(m.Now) {
			continue // accepted before the clock was set back: a list of all treats it as newer than the walk
		}
		if f.Order == dispatcher.OrderEnded && d.Place != redisqtest.PlaceDone && d.Place != redisqtest.PlaceDead && d.Place != redisqtest.PlaceCancelled {
			continue
		}
		if f.Matches(&of, of.Created) {
			w.there[id] = sight{d, d.Found}
		}
	}
	return w
}
