package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/wire"
)

// left are the reasons for which a retry left deliveries, by destination; empty
// for those that are attempted.
func left(list []wire.RetriedDelivery) map[string]string {
	why := map[string]string{}
	for _, d := range list {
		why[d.Destination] = d.Why
	}
	return why
}

func TestRetryOfAFanOutTellsWhichItLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newBarrier()
	w.receiver.answers(func(rw http.ResponseWriter, req *http.Request, _ string, _ int) {
		switch req.URL.Path {
		case "/hangs":
			h.wait(req)
		case "/fails":
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	i := w.serve()
	all := []string{"*"}
	has, hangs, fails := i.endpoint("/has", wire.Endpoint{Topics: all}), i.endpoint("/hangs", wire.Endpoint{Topics: all}), i.endpoint("/fails", wire.Endpoint{Topics: all})
	i.publish(wire.Message{ID: "fan", MaxAttempts: 1})
	stand := func() bool {
		ds := i.deliveries("fan")
		return ds[has.ID].Status == "delivered" && ds[hangs.ID].Status == "in_flight" && ds[fails.ID].Status == "dead"
	}
	eventually(t, "each stands as it should", stand)

	list, err := i.Retry(t.Context(), "fan", "")
	require.NoError(t, err)
	require.Equal(t, map[string]string{has.ID: "delivered", hangs.ID: "in_flight", fails.ID: ""}, left(list))
	w.receiver.until("the failing one again", func() bool { return len(w.receiver.at("/fails")) == 2 })
	require.Len(t, w.receiver.at("/has"), 1, "it has it")
	eventually(t, "each stands as it should", stand)

	env := []string{"HOOKLADDER_URL=" + i.URL}
	got := mustRun(t, env, "", "retry", "fan")
	require.Equal(t, exitOK, got.code, got.err)
	require.Regexp(t, `(?m)^  left +it was delivered; --all or --destination sends it again$`, got.out)
	require.Regexp(t, `(?m)^  left +an attempt is under way$`, got.out)
	require.Regexp(t, `(?m)^  retry +now$`, got.out)
	w.receiver.until("the failing one a third time", func() bool { return len(w.receiver.at("/fails")) == 3 })

	got = mustRun(t, env, "", "retry", "fan", "--destination", hangs.ID)
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `(?m)^  left +an attempt is under way$`, got.out)
	require.Equal(t, 1, strings.Count(got.out, "fan\n"))

	before := i.deliveries("fan")[has.ID]
	_, err = i.Retry(t.Context(), "fan", has.ID)
	require.NoError(t, err, "it is named")
	w.receiver.until("the one that has it again", func() bool { return len(w.receiver.at("/has")) == 2 })
	eventually(t, "each stands as it should", stand)
	got = mustRun(t, env, "", "retry", "fan", "--all", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.out, `"why": "in_flight"`)
	w.receiver.until("the one that has it a third time", func() bool { return len(w.receiver.at("/has")) == 3 })
	eventually(t, "each stands as it should", stand)
	after := i.deliveries("fan")[has.ID]
	require.Equal(t, before.DeliveredAt, after.DeliveredAt)
	require.Equal(t, "delivered", after.History[0].Outcome)
	require.Equal(t, 1, after.History[0].Attempt)
	close(h.release)
}
