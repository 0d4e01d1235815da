package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

const merchantsURL = "https://merchant.example/hook"

// Whatever way out a call takes, the operator's headers go to the operator's URL only.
func TestHeadersAreNotSentToAURLThatALinkSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		var fails atomic.Bool
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			if fails.Load() {
				return d.Answer{Status: 500}
			}
			return d.Answer{Status: 200}
		}
		r.start(t)
		view := r.create(t, uid("main"), func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "authorization", Value: "Bearer t"}} })
		last := func() (to, token string, linked bool) {
			synctest.Wait()
			all := r.sender.sent()
			c := all[len(all)-1]
			return c.URL.String(), c.Header.Get("Authorization"), c.Linked
		}
		test := func() {
			t.Helper()
			_, err := r.TestEndpoint(t.Context(), "main")
			require.NoError(t, err)
		}
		requireLast := func(url, token string, linked bool, about string) {
			t.Helper()
			to, got, by := last()
			require.Equal(t, []any{url, token, linked}, []any{to, got, by}, about)
		}
		byLinkTo := func(url string) {
			t.Helper()
			require.NoError(t, changes(func(e *d.Endpoint) { e.URL = url })(byLink(t.Context()), r))
		}
		r.publish(t, to("main", "m1"))
		requireLast(view.URL, "Bearer t", false, "a delivery to the operator's URL")

		byLinkTo(merchantsURL)
		test()
		requireLast(merchantsURL, "", true, "a test")
		_, err := r.Retry(t.Context(), "m1", "", true)
		require.NoError(t, err)
		requireLast(merchantsURL, "", true, "a resend of what had them before")
		fails.Store(true)
		r.publish(t, to("main", "m2"))
		requireLast(merchantsURL, "", true, "a delivery")
		before := len(r.sender.sent())
		fails.Store(false)
		for deadline := time.Now().Add(24 * time.Hour); len(r.sender.sent()) == before; pass(time.Second) {
			require.True(t, time.Now().Before(deadline), "it is attempted again")
		}
		requireLast(merchantsURL, "", true, "a retry")

		byLinkTo(view.URL)
		test()
		requireLast(view.URL, "Bearer t", true, "the URL that they are for")
		byLinkTo(merchantsURL)
		require.NoError(t, resumes(t.Context(), r))
		test()
		requireLast(merchantsURL, "", true, "a resume confirms nothing")

		require.NoError(t, changes((*d.Endpoint).Confirm)(t.Context(), r))
		require.Equal(t, d.StateActive, r.state(t, "main"))
		r.publish(t, to("main", "m3"))
		requireLast(merchantsURL, "Bearer t", false, "the operator confirmed")
		r.stop(t)
	})
}

// A URL that an operator confirms is as good as one that the operator set: nothing waits.
func TestAConfirmedURLWaitsForNoTest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		r.createByLink(t, uid("main"))
		r.publish(t, to("main", "m"))
		synctest.Wait()
		require.Empty(t, r.sender.sent())
		require.NoError(t, changes((*d.Endpoint).Confirm)(t.Context(), r))
		synctest.Wait()
		require.Len(t, r.sender.sent(), 1)
		r.stop(t)
	})
}
