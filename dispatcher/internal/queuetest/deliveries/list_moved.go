package deliveries

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/rig"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// walkAll walks the list of all deliveries, one a page. After a delivery was shown it runs what
// stands beside its message. It answers how often each was shown.
func walkAll(r *rig.Rig, after map[string]func()) map[string]int {
	r.Helper()
	shown := map[string]int{}
	f := dispatcher.Filter{Limit: 1}
	for range 100 {
		page, err := r.Queue.List(r.Ctx, f)
		require.NoError(r, err)
		for _, d := range page.Deliveries {
			shown[d.ID.Message]++
			if act := after[d.ID.Message]; act != nil && shown[d.ID.Message] == 1 {
				act()
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return shown
		}
	}
	r.Fatal("the list never ends")
	return nil
}

// MovedCases are about lists of all deliveries that move meanwhile.
var MovedCases = []rig.Case{
	{Name: "a list of all shows each once where nothing moves", Setup: stored.Setup{Partitions: 2}, Run: func(r *rig.Rig) {
		want := map[string]int{}
		for id := range r.Populate() {
			want[id.Message] = 1
		}
		r.Pass(2 * time.Minute)
		require.Equal(r, want, walkAll(r, nil))
	}},
	{Name: "a list of all misses nothing that moves past its page", Setup: stored.Setup{Partitions: 2}, Run: func(r *rig.Rig) {
		lanes := []string{"a", "c", "d"} // each with a message of its name
		for _, lane := range lanes {
			r.Publish(dispatcher.Lane(lane), lane)
		}
		r.Schedule(r.Entry("near", rig.To("b"), rig.Delay(time.Hour)), r.Entry("far", rig.To("b"), rig.Delay(2*time.Hour)))
		r.Pass(time.Second)
		after := map[string]func(){}
		var taken []dispatcher.Claimed
		for _, lane := range lanes {
			after[lane] = func() { // the list is past what is in flight
				if taken == nil {
					taken = slices.DeleteFunc(r.ClaimAll(rig.One), func(c dispatcher.Claimed) bool { return c.ID.Message == lane })
				}
			}
		}
		after["near"] = func() { // and past what is ready, and what is due before that
			require.Len(r, taken, 2)
			r.MustSettle(rig.One, rig.HandBack(taken[0]))
			r.MustSettle(rig.One, rig.Failure(taken[1], time.Minute))
		}
		shown := walkAll(r, after)
		for _, id := range append(lanes, "near", "far") {
			require.Positive(r, shown[id], "%s: %v", id, shown)
		}
		require.Equal(r, []int{1, 1}, []int{shown["near"], shown["far"]})
	}},
	{Name: "a list of all shows what ended behind its page", Setup: stored.Setup{Partitions: 2}, Run: func(r *rig.Rig) {
		ended := r.EndOne("z")
		r.Publish("a", "forward")
		r.Schedule(r.Entry("waits", rig.To("b"), rig.Delay(time.Hour)))
		r.Pass(time.Second)
		shown := walkAll(r, map[string]func(){ended.Message: func() {
			r.MustSettle(rig.One, rig.Success(r.ClaimAll(rig.One)[0]))
		}})
		require.Equal(r, map[string]int{ended.Message: 1, "forward": 1, "waits": 1}, shown)
	}},
}
