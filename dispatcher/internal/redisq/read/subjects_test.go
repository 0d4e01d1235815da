package read_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// about publishes a message with a subject, a ms after the one before.
func (l *library) about(id, subject string, lanes ...dispatcher.Lane) {
	l.Helper()
	l.Pass(time.Millisecond)
	l.Publish(l.store, l.Entry(id, lanes, func(m *dispatcher.Message) { m.Subject, m.Delay = subject, time.Hour }))
}

// find names the messages of subjects, and reports whether there are more.
func (l *library) find(subjects ...string) (ids []string, more bool) {
	l.Helper()
	found, more, err := l.store.Subjects(l.Context(), subjects, nil, time.Time{})
	require.NoError(l, err)
	for _, m := range found {
		ids = append(ids, m.ID)
	}
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

// ending names the messages whose numbers end with digits.
func (l *library) ending(digits string) []string {
	l.Helper()
	found, more, err := l.store.Subjects(l.Context(), nil, []string{digits}, time.Time{})
	require.NoError(l, err)
	require.False(l, more)
	ids := []string{}
	for _, m := range found {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestMessagesAreFoundByTheLastDigitsOfTheirNumbers(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			l := openTestLibrary(t, partitions)
			require.Empty(t, l.ending("4711"))
			l.about("m1", "order_104711", "u_1", "ep_1", "q_a")
			l.about("m2", "Order 4711", "u_2")
			l.about("m3", "order_104711", "u_2")
			l.about("m4", "cus_8f3a4711", "u_3")
			l.about("m5", "order_104712", "u_2")
			l.about("m6", "order_711", "u_2")
			l.about("m7", "order_105711", "u_2")
			l.about("m8", "4711 for you", "u_2")
			require.Equal(t, []string{"m8", "m4", "m3", "m2", "m1"}, l.ending("4711"))
			require.Equal(t, []string{"m8", "m4", "m3", "m2", "m1"}, l.ending("104711"), "the index has four digits")
			require.Equal(t, []string{"m7"}, l.ending("5711"))
			require.Empty(t, l.ending("1471"))
			require.Equal(t, []string{"u_2:m3", "u_1:m1", "q_a:m1", "ep_1:m1"}, l.walk(dispatcher.Filter{SubjectEnds: []string{"04711"}, Limit: 50}), "a list compares all of them")

			for n := range 40 { // more than a field of a hash names
				l.about(fmt.Sprint("c", n), "order 94711", dispatcher.Lane(fmt.Sprint("u_", n)))
			}
			require.Len(t, l.ending("4711"), 45)
			var all []dispatcher.DeliveryID
			for _, state := range l.States(partitions) {
				all = append(all, state.Deliveries()...)
			}
			end := func(of func(dispatcher.DeliveryID) bool, keep dispatcher.Keep) {
				t.Helper()
				l.cancel(slices.DeleteFunc(slices.Clone(all), func(id dispatcher.DeliveryID) bool { return !of(id) })...)
				l.Pass(time.Millisecond)
				l.trim(keep)
			}
			end(func(id dispatcher.DeliveryID) bool {
				return id.Message == "m1" || id.Message[0] == 'c' && id.Message != "c7"
			}, dispatcher.Keep{Finished: time.Hour, SeenMax: 100})
			require.Equal(t, []string{"c7", "m8", "m4", "m3", "m2"}, l.ending("4711"))
			end(func(dispatcher.DeliveryID) bool { return true }, dispatcher.Keep{})
			require.Empty(t, l.ending("4711"))
			for _, key := range redisqtest.Keys(t, l.Client, l.Options.Project) {
				require.NotContains(t, key, keys.Digits)
			}
		})
	}
}

// A list of last digits has a limit, and the newest are in it. What it lost is no fault.
func TestTheIndexOfLastDigitsKeepsTheNewest(t *testing.T) {
	t.Parallel()
	l := openTestLibrary(t, 1)
	const most = 4096
	for n := 0; n < most+100; n += 100 {
		var batch []dispatcher.Entry
		l.Pass(time.Millisecond)
		for k := n; k < n+100; k++ {
			batch = append(batch, l.Entry(fmt.Sprint("m", k), []dispatcher.Lane{"u_1"}, func(m *dispatcher.Message) {
				m.Subject, m.Body = fmt.Sprintf("order_%d%d711", k, 4+k%2), []byte("{}")
			}))
		}
		l.Publish(l.store, batch...)
	}
	list := l.Client.LRange(t.Context(), keys.Tag(l.Options.Project, 0)+keys.Digits+"711", 0, -1).Val()
	require.Equal(t, most, len(list))
	require.Empty(t, list[0], "one in place of all that are gone")
	require.NotContains(t, list[1:], "")
	names := l.walk(dispatcher.Filter{SubjectEnds: []string{"4711"}, Limit: 500})
	require.Equal(t, most/2-1, len(names))
	require.Equal(t, "u_1:m4198", names[0])
	require.False(t, slices.Contains(names, "u_1:m0"))
}

// If orders with the same last digits have too many messages for one answer, a list is read by
// status, and has them all.
func TestAListOfTooManyMessagesByTheirLastDigitsIsWhole(t *testing.T) {
	t.Parallel()
	l := openTestLibrary(t, 1)
	for order := range 12 {
		for n := 0; n < 1000; n += 250 {
			var batch []dispatcher.Entry
			for k := n; k < n+250; k++ {
				batch = append(batch, l.Entry(fmt.Sprintf("m%d_%d", order, k), []dispatcher.Lane{"u_1"}, func(m *dispatcher.Message) {
					m.Subject, m.Body = fmt.Sprintf("order_%d4711", order), []byte("{}")
				}))
			}
			l.Publish(l.store, batch...)
			l.Pass(time.Millisecond)
		}
	}
	_, _, err := l.store.Subjects(t.Context(), nil, []string{"4711"}, time.Time{})
	require.ErrorIs(t, err, read.ErrMore)
	require.Equal(t, 12_000, len(l.walk(dispatcher.Filter{SubjectEnds: []string{"4711"}, Limit: 500})))
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
	require.Len(t, ids, 950, "all of each ms: the 1,000th was not the last of its own")
	require.Equal(t, "m0950", ids[0])
	require.NotContains(t, ids, "oldest")

	list := l.walk(dispatcher.Filter{SubjectLike: []string{"#17"}, Limit: 64})
	require.Len(t, list, 1001)
	require.Equal(t, "u_1:oldest", list[1000])
	list = l.walk(dispatcher.Filter{SubjectLike: []string{"#17"}, Lanes: []dispatcher.Lane{"u_1"}, Limit: 500})
	require.Len(t, list, 1001, "from the shelf, since the subject has more than a call finds")
}

// However many messages with one subject were accepted in one ms, a list shows all of them.
func TestManyOfOneMsAreAllListed(t *testing.T) {
	t.Parallel()
	l := openTestLibrary(t, 1)
	for n := 0; n < 2000; n += 500 {
		var batch []dispatcher.Entry
		for k := n; k < n+500; k++ {
			batch = append(batch, l.Entry(fmt.Sprintf("m%04d", k), []dispatcher.Lane{"u_1"}, func(m *dispatcher.Message) { m.Subject, m.Body = "nightly", []byte("{}") }))
		}
		l.Publish(l.store, batch...)
	}
	require.Equal(t, 2000, len(l.walk(dispatcher.Filter{Subjects: []string{"nightly"}, Limit: 500})))
}

// walk names the deliveries on all pages of a list.
func (l *library) walk(f dispatcher.Filter) (names []string) {
	l.Helper()
	require.NoError(l, f.Arrange())
	for pages := 0; ; pages++ {
		require.Less(l, pages, 2000, "the walk has no end")
		page, err := l.store.List(l.Context(), f)
		require.NoError(l, err)
		require.LessOrEqual(l, len(page.Deliveries), f.Limit)
		for i := range page.Deliveries {
			names = append(names, page.Deliveries[i].ID.String())
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return names
		}
	}
}

// A list by subject has each delivery of its messages once, whatever the size of its pages
// and however many were accepted in one ms.
func TestAListBySubjectIsWhole(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			l := openTestLibrary(t, partitions)
			var want []string
			for n := range 12 {
				l.Pass(time.Millisecond)
				var batch []dispatcher.Entry
				var of []string
				for k := range 5 { // of one ms
					id, lanes, subject := fmt.Sprintf("m%d_%d", n, k), []dispatcher.Lane{"u_1", "ep_1", "q_a"}[:1+k%3], "order_8713"
					switch k {
					case 3:
						subject = "ORDER 8713"
					case 4:
						subject = "order_8714"
					}
					batch = append(batch, l.Entry(id, lanes, func(m *dispatcher.Message) { m.Subject, m.Tenant, m.Delay = subject, "m7", time.Hour }))
					for _, lane := range lanes {
						if k != 4 {
							of = append(of, string(lane)+":"+id)
						}
					}
				}
				l.Publish(l.store, batch...)
				slices.Sort(of)
				want = append(want, of...)
			}
			slices.Reverse(want)
			like := []string{"#8713"}
			exact := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return strings.HasSuffix(name, "_3") })
			inLane := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return !strings.HasPrefix(name, "ep_1:") })
			for _, limit := range []int{1, 2, 7, 50, 500} {
				require.Equal(t, want, l.walk(dispatcher.Filter{SubjectLike: like, Limit: limit}), limit)
				require.Equal(t, exact, l.walk(dispatcher.Filter{Subjects: []string{"order_8713"}, Limit: limit}), limit)
				require.Equal(t, inLane, l.walk(dispatcher.Filter{SubjectLike: like, Lanes: []dispatcher.Lane{"ep_1"}, Limit: limit}), limit)
				require.Equal(t, want, l.walk(dispatcher.Filter{SubjectLike: like, Tenants: []string{"m7"}, Statuses: []dispatcher.Status{"scheduled"}, Limit: limit}), limit)
				require.Empty(t, l.walk(dispatcher.Filter{SubjectLike: like, Tenants: []string{"m8"}, Limit: limit}))
				require.Empty(t, l.walk(dispatcher.Filter{SubjectLike: like, Statuses: []dispatcher.Status{"delivered"}, Limit: limit}))
				require.Len(t, l.walk(dispatcher.Filter{SubjectLike: like, Order: dispatcher.OrderDue, Limit: limit}), len(want))
			}
			one, err := l.store.Read(t.Context(), "m5_0")
			require.NoError(t, err)
			later := l.walk(dispatcher.Filter{SubjectLike: like, Since: one.Message.CreatedAt, Limit: 4})
			earlier := l.walk(dispatcher.Filter{SubjectLike: like, Until: one.Message.CreatedAt, Limit: 4})
			require.Equal(t, want, append(slices.Clone(later), earlier...))
			require.Len(t, earlier, len(want)*5/12)
		})
	}
}
