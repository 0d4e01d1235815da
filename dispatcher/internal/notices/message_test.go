package notices_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// state is what a notice says of how things stand.
func TestANoticeTellsTheStateOfWhatItIsAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.states["u_2"] = d.LaneState{Limits: d.LaneLimits{Mode: d.LanePaused}}
		s.states["ep_1"] = d.LaneState{Limits: d.LaneLimits{Mode: d.LanePaused}, Cause: d.WhyUnverified}
		n := s.start(t, opsURL)
		for _, c := range []struct {
			news d.News
			want string
		}{
			{d.News{Notice: d.NoticeFailing, Lane: u1}, "failing"},
			{d.News{Notice: d.NoticeRecovered, Lane: u1, Reason: "resumed"}, "active"},
			{d.News{Notice: d.NoticeRecovered, Lane: "u_2"}, "paused"},
			{d.News{Notice: d.NoticeClosed, Lane: "ep_1"}, "unverified"},
			{d.News{Notice: d.NoticeOpened, Lane: u1}, "open"},
			{d.News{Notice: d.NoticeDisabled, Lane: u1, State: "active"}, "active"},
			{d.News{Notice: d.NoticeDisabled, Lane: "ep_1"}, "disabled"},
			{d.News{Notice: d.NoticeLost, Key: "a"}, "lost"},
		} {
			c.news.At = time.Now()
			n.Notify(c.news)
			synctest.Wait()
			said := mustNotice(t, s.order[len(s.order)-1].Body)
			require.Equal(t, [2]string{c.want, c.news.Reason}, [2]string{said.State, said.Reason}, c.news.Notice)
		}
	})
}

// mustNotice reads a notice as the document describes it, and checks that no field is missing there.
func mustNotice(t testing.TB, body []byte) (n wire.Notice) {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, &n))
	again, err := json.Marshal(n)
	require.NoError(t, err)
	require.JSONEq(t, string(body), string(again))
	return n
}

func TestTheEndOfAJobIsToldWithItsIDKindAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		n := s.start(t, opsURL)
		n.Notify(d.News{
			Notice: d.NoticeJob, At: time.Now(), Key: "7_1", State: "stopped",
			Job: &d.JobEnd{ID: "job_7", Kind: d.JobRetry, JobCounts: d.JobCounts{Matched: 12, Failed: 9, Left: 3}},
		})
		synctest.Wait()
		mustNotice(t, s.order[0].Body)
		require.Contains(t, string(s.order[0].Body), `"state":"stopped","job":"job_7","kind":"retry","done":0,"failed":9,"left":3`)
	})
}
