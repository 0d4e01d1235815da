package shelf_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// about publishes a message with a subject, a ms after the one before.
func (l *library) about(id, subject string, lanes ...dispatcher.Lane) {
	l.Helper()
	l.Pass(time.Millisecond)
	l.Publish(l.store, l.Entry(id, lanes, func(m *dispatcher.Message) { m.Subject, m.Delay = subject, time.Hour }))
}

// find names the messages of subjects, and reports whether there are more.
func (l *library) find(subjects ...string) ([]string, bool) {
	l.Helper()
	ids, more, err := l.store.Queue().Subjects(l.Context(), subjects)
	require.NoError(l, err)
	return ids, more
}

func TestMessagesAreFoundByTheirSubjects(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			l := openTestLibrary(t, partitions)
			mustFind := func(want []string, subjects ...string) {
				t.Helper()
				ids, more := l.find(subjects...)
				require.Equal(t, want, ids)
				require.False(t, more)
			}
			mustFind(nil, "order_8713")
			l.about("m1", "order_8713", "u_1", "ep_1", "q_a")
			l.about("m2", "#8713", "u_2")
			l.about("m3", "order_8714", "u_2")
			l.about("m4", "", "u_2")
			for _, asked := range []string{"8713", "#8713", "ORDER 8713", "order_8713"} {
				mustFind([]string{"m2", "m1"}, asked)
			}
			mustFind([]string{"m3", "m2", "m1"}, "8714", "8713", "8713", "nothing")
			mustFind(nil, "order", "", "871")
			mustFind(nil)

			crowd := []string{}
			for n := range 40 { // more than a field of a hash names
				id := fmt.Sprint("c", n)
				l.about(id, "a crowd", dispatcher.Lane(fmt.Sprint("u_", n)))
				crowd = append([]string{id}, crowd...)
				mustFind(crowd, "A Crowd")
			}
			var all []dispatcher.DeliveryID
			for _, state := range l.States(partitions) {
				require.Empty(t, state.Unknown)
				all = append(all, state.Deliveries()...)
			}
			end := func(of func(dispatcher.DeliveryID) bool, keep dispatcher.Keep) {
				t.Helper()
				some := slices.DeleteFunc(slices.Clone(all), func(id dispatcher.DeliveryID) bool { return !of(id) })
				l.cancel(some...)
				l.Pass(time.Millisecond)
				l.trim(keep)
			}
			digests := dispatcher.Keep{Finished: time.Hour, SeenMax: 100}
			end(func(id dispatcher.DeliveryID) bool { return id.Lane == "u_1" && id.Message == "m1" }, digests)
			mustFind([]string{"m2", "m1"}, "8713")
			end(func(id dispatcher.DeliveryID) bool { return id.Message == "m1" || id.Message == "c7" }, digests)
			mustFind([]string{"m2"}, "8713")
			mustFind(slices.DeleteFunc(slices.Clone(crowd), func(id string) bool { return id == "c7" }), "a crowd")
			end(func(dispatcher.DeliveryID) bool { return true }, dispatcher.Keep{})
			for _, key := range redisqtest.Keys(t, l.Client, l.Options.Project) {
				require.NotContains(t, key, keys.Subjects)
				require.NotContains(t, key, keys.Subject)
			}
		})
	}
}

func TestMoreMessagesThanOneCallFindsAreReported(t *testing.T) {
	t.Parallel()
	l := openTestLibrary(t, 1)
	l.about("oldest", "order 17", "u_1")
	for n := 0; n < 1000; n += 50 {
		var batch []dispatcher.Entry
		l.Pass(time.Millisecond)
		for k := n; k < n+50; k++ {
			batch = append(batch, l.Entry(fmt.Sprintf("m%04d", k), []dispatcher.Lane{"u_1"}, func(m *dispatcher.Message) { m.Subject, m.Body = "order 17", []byte("{}") }))
		}
		l.Publish(l.store, batch...)
	}
	ids, more := l.find("17")
	require.True(t, more)
	require.Len(t, ids, 1000)
	require.Equal(t, "m0950", ids[0])
	require.NotContains(t, ids, "oldest")
}
