package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
)

// byLink is a call on behalf of people who came by a link, as the API makes it.
func byLink(ctx context.Context) context.Context {
	return d.WithCaller(d.WithBrowser(ctx, d.Browser{Name: "lnk_7"}), "link:lnk_7")
}

// createByLink registers an endpoint on behalf of a link.
func (r *endpointRig) createByLink(t testing.TB, with ...func(*d.Endpoint)) d.EndpointView {
	t.Helper()
	view, _, err := r.CreateEndpoint(byLink(t.Context()), newTestEndpoint(with...))
	require.NoError(t, err)
	return view
}

// state is an endpoint's, as it is read.
func (r *endpointRig) state(t testing.TB, name string) d.EndpointState {
	t.Helper()
	view, err := r.Endpoint(t.Context(), name)
	require.NoError(t, err)
	return view.State
}

func TestAURLThatALinkSetIsNotCalledUntilATestSucceeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.createByLink(t, uid("main"))
		require.Equal(t, d.StateUnverified, view.State)
		require.Equal(t, "link:lnk_7", view.StoppedBy)
		require.Equal(t, d.LanePaused, r.queue.limitsOf(view.Lane()).Mode)
		require.Equal(t, d.StatusReady, r.publish(t, to("main", "m")).Deliveries[0].Status)
		pass(5 * time.Minute)
		require.Empty(t, r.sender.sent())
		lanes, err := r.LaneStates(t.Context(), []d.Lane{view.Lane()})
		require.NoError(t, err)
		state, why := lanes[0].Standing()
		require.Equal(t, [2]string{"paused", "unverified"}, [2]string{string(state), string(why)})

		r.sender.answer = func(context.Context, d.Call) d.Answer { return d.Answer{Status: 500} }
		_, err = r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
		pass(5 * time.Minute)
		require.Equal(t, d.StateUnverified, r.state(t, "main"))
		require.Len(t, r.sender.sent(), 1, "the test is sent though the lane is held")

		r.sender.answer = nil
		_, err = r.TestEndpoint(byLink(t.Context()), "main")
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, d.StateActive, r.state(t, "main"))
		require.Len(t, r.sender.sent(), 3, "what waited goes at once")
		require.Contains(t, r.log.String(), "endpoint verified")
		stored := r.store.stored(view.ID)
		require.False(t, stored.Unverified)
		require.Empty(t, stored.StoppedBy)
		r.stop(t)
	})
}

// A link's change of the URL asks for a test, and the operator's word is as good as one.
func TestWhatMakesAURLWaitForATest(t *testing.T) {
	t.Parallel()
	url := func(text string) func(*d.Endpoint) { return func(e *d.Endpoint) { e.URL = text } }
	described := func(e *d.Endpoint) { e.Description = "new" }
	for name, c := range map[string]struct {
		from bool // it waits before
		link bool // a link does it
		do   func(ctx context.Context, r *endpointRig) error
		want bool
	}{
		"a link sets another url":           {false, true, changes(url("https://new.example/")), true},
		"a link sets the same url":          {false, true, changes(url("https://shop.example/hook")), false},
		"a link changes something else":     {false, true, changes(described), false},
		"a link sets a url again":           {true, true, changes(url("https://new.example/")), true},
		"a link changes something besides":  {true, true, changes(described), true},
		"a link resumes":                    {true, true, resumes, true},
		"a link pauses and resumes":         {true, true, pausesAndResumes, true},
		"a link resumes what does not wait": {false, true, resumes, false},
		"the operator sets a url":           {false, false, changes(url("https://new.example/")), false},
		"the operator sets another url":     {true, false, changes(url("https://new.example/")), false},
		"the operator repeats the url":      {true, false, changes(url("https://shop.example/hook")), true},
		"the operator changes the rest":     {true, false, changes(described), true},
		"the operator resumes":              {true, false, resumes, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.start(t)
				add := r.create
				if c.from {
					add = r.createByLink
				}
				view := add(t, uid("main"), url("https://shop.example/hook"))
				require.Equal(t, c.from, view.Unverified)
				ctx := t.Context()
				if c.link {
					ctx = byLink(ctx)
				}
				require.NoError(t, c.do(ctx, r))
				want := d.StateActive
				if c.want {
					want = d.StateUnverified
				}
				require.Equal(t, want, r.state(t, "main"))
				require.Equal(t, c.want, r.store.stored(view.ID).Unverified)
				require.Equal(t, c.want, r.queue.limitsOf(view.Lane()).Mode == d.LanePaused)
				r.stop(t)
			})
		})
	}
}

func TestALinkEnablesNothingThatTheOperatorDisabled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause d.LaneWhy
		want  error
	}{
		"the operator did":           {"", d.ErrDisabled},
		"its receiver was gone":      {d.WhyGone, nil},
		"it had failed for too long": {d.WhyFailing, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, nil)
				r.start(t)
				view := r.create(t, uid("main"))
				require.NoError(t, changes(func(e *d.Endpoint) { e.Disabled, e.Cause = true, c.cause })(t.Context(), r))
				require.ErrorIs(t, resumes(byLink(t.Context()), r), c.want)
				require.Equal(t, c.want != nil, r.store.stored(view.ID).Disabled)
				require.NoError(t, resumes(t.Context(), r), "the operator does")
				require.False(t, r.store.stored(view.ID).Disabled)
				r.stop(t)
			})
		})
	}
}

func changes(change func(*d.Endpoint)) func(context.Context, *endpointRig) error {
	return func(ctx context.Context, r *endpointRig) error {
		_, err := r.ChangeEndpoint(ctx, "main", func(e *d.Endpoint) error { change(e); return nil })
		return err
	}
}

func resumes(ctx context.Context, r *endpointRig) error {
	_, err := r.Resume(ctx, "main", "")
	return err
}

func pausesAndResumes(ctx context.Context, r *endpointRig) error {
	if _, err := r.Pause(ctx, "main", ""); err != nil {
		return err
	}
	return resumes(ctx, r)
}

func TestAnEndpointOfKindPullWaitsForNoTest(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.createByLink(t, func(e *d.Endpoint) { e.Pull, e.URL = true, "" })
	require.Equal(t, d.StateActive, view.State)
}

func TestUnverifiedStandsBehindDisabledAndPaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"))
		r.queue.openBreaker(view.Lane())
		require.Equal(t, d.StateOpen, r.state(t, "main"))
		r.change(t, "main", func(e *d.Endpoint) { e.Unverified = true })
		require.Equal(t, d.StateUnverified, r.state(t, "main"))
		r.change(t, "main", func(e *d.Endpoint) { e.Paused = true })
		require.Equal(t, d.StatePaused, r.state(t, "main"))
		_, err := r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
		require.Equal(t, d.StatePaused, r.state(t, "main"), "a test ends no pause")
		require.False(t, r.store.stored(view.ID).Unverified)
		r.change(t, "main", func(e *d.Endpoint) { e.Disabled = true })
		require.Equal(t, d.StateDisabled, r.state(t, "main"))
		r.stop(t)
	})
}

// A test tells of the URL that it called only.
func TestATestOfAnotherURLVerifiesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		r.createByLink(t, uid("main"))
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			require.NoError(t, changes(func(e *d.Endpoint) { e.URL = "https://new.example/" })(byLink(t.Context()), r))
			return d.Answer{Status: 204}
		}
		result, err := r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
		require.Equal(t, d.Delivered, result.Attempt.Verdict)
		require.Equal(t, d.StateUnverified, r.state(t, "main"))
		r.stop(t)
	})
}

// The endpoint is the truth: an instance that died before it changed the lane's copy leaves
// nothing half done.
func TestAVerificationThatStoppedHalfWayIsFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.createByLink(t, uid("main"))
		r.publish(t, to("main", "m"))
		r.half(view, func(e *d.Endpoint) { e.Unverified = false })
		pass(61 * time.Second)
		require.Equal(t, d.LaneNormal, r.queue.limitsOf(view.Lane()).Mode)
		require.Len(t, r.sender.sent(), 1)

		view, err := r.Endpoint(t.Context(), "main")
		require.NoError(t, err)
		r.half(view, func(e *d.Endpoint) { e.URL, e.Unverified = "https://new.example/", true })
		r.store.notify(d.EndpointChange{ID: view.ID, Tenant: view.Tenant, Version: view.Version + 1})
		r.publish(t, to("main", "m2"))
		pass(time.Minute)
		require.Len(t, r.sender.sent(), 1, "the lane's copy was not held, and nothing went")
		require.Equal(t, d.LanePaused, r.queue.limitsOf(view.Lane()).Mode)
		r.stop(t)
	})
}

// Where the store is lost meanwhile, a person who tests is not told that the endpoint goes on.
func TestATestWhoseSuccessCantBeKeptSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		r.createByLink(t, uid("main"))
		r.sender.answer = func(context.Context, d.Call) d.Answer {
			r.store.set(func() { r.store.hook = func(string) error { return d.ErrUnavailable } })
			return d.Answer{Status: 204}
		}
		_, err := r.TestEndpoint(t.Context(), "main")
		require.ErrorIs(t, err, d.ErrUnavailable)
		r.store.set(func() { r.store.hook = nil })
		require.Equal(t, d.StateUnverified, r.state(t, "main"))
		r.stop(t)
	})
}
