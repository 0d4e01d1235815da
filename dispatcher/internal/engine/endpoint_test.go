package engine_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	d "github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/engine"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

func TestANewEndpointHasAnIDAVersionTimesAndASecret(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestEndpointRig(t, func(_ *engine.Options, q *testQueue, _ *fakeSender) { q.skew.Store(int64(-time.Hour)) })
				r.start(t)
				asked := newTestEndpoint(func(e *d.Endpoint) { e.Signature = scheme })
				pass(1234567 * time.Nanosecond)
				view, created, err := r.CreateEndpoint(t.Context(), asked)
				require.NoError(t, err)
				require.True(t, created)
				require.Regexp(t, `^ep_[a-z2-7]{9}$`, view.ID)
				require.Equal(t, int64(1), view.Version)
				now := r.queue.now().Truncate(time.Millisecond)
				require.True(t, view.CreatedAt.Equal(now), "by the queue's clock, in whole ms")
				require.True(t, view.UpdatedAt.Equal(now))
				require.Equal(t, d.StateActive, view.State)
				require.Len(t, view.Secrets, 1)
				require.True(t, view.Secrets[0].Until.IsZero())
				_, err = scheme.NewSigner(view.Secrets[0].Secret)
				require.NoError(t, err, "one that fits its scheme")
				require.Equal(t, view.Endpoint, r.store.stored(view.ID))
				require.Equal(t, newTestEndpoint(func(e *d.Endpoint) { e.Signature = scheme }), asked, "what was asked for is not changed")
				other := r.create(t)
				require.NotEqual(t, view.ID, other.ID)
				require.False(t, view.Secrets[0].Secret.Equal(other.Secrets[0].Secret))
				r.stop(t)
			})
		})
	}
}

func TestAGivenSecretIsKept(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	secret := signer.NewSecret()
	view := r.create(t, func(e *d.Endpoint) { e.Secrets = []d.EndpointSecret{{Secret: secret}} })
	require.True(t, view.Secrets[0].Secret.Equal(secret))
}

func TestALaneKnowsItsLimitsBeforeItsEndpointIsKnown(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	r.store.journal(r.queue)
	view := r.create(t, paused)
	require.Equal(t, []string{"limit", "create endpoint"}, r.queue.order("limit", "create endpoint"))
	require.Equal(t, d.LaneLimits{Version: 1, Mode: d.LanePaused}, r.queue.limitsOf(view.Lane()))
	require.Equal(t, d.StatePaused, view.State)

	r.queue.set(func() { r.queue.hook = failing("limit", d.ErrUnavailable) })
	before := r.store.count("create endpoint")
	_, _, err := r.CreateEndpoint(t.Context(), newTestEndpoint())
	require.ErrorIs(t, err, d.ErrUnavailable)
	require.Equal(t, before, r.store.count("create endpoint"))
}

func TestAUIDThatIsThereIsAnsweredWhereItIsEqual(t *testing.T) {
	t.Parallel()
	own, err := ladder.New(time.Second, time.Minute)
	require.NoError(t, err)
	again, err := ladder.New(time.Second, time.Minute)
	require.NoError(t, err)
	longer, err := ladder.New(time.Second, time.Minute, time.Hour)
	require.NoError(t, err)
	success, err := success.Parse("200")
	require.NoError(t, err)
	full := func(e *d.Endpoint) {
		e.UID, e.Description, e.Metadata = "main", "d", map[string]string{"a": "1"}
		e.Ladder, e.Timeout, e.MaxInFlight, e.Rate = &own, 2*time.Second, 5, d.Rate{Count: 60, Per: time.Minute}
		e.Headers, e.Success = []d.Header{{Name: "X-A", Value: "1"}}, success
		e.Secrets = []d.EndpointSecret{{Secret: mustSecret(t)}}
	}
	equal := map[string]func(*d.Endpoint){
		"all the same":             func(*d.Endpoint) {},
		"no secret was asked for":  func(e *d.Endpoint) { e.Secrets = nil },
		"another ladder like it":   func(e *d.Endpoint) { e.Ladder = &again },
		"the same rate":            func(e *d.Endpoint) { e.Rate = d.Rate{Count: 1, Per: time.Second} },
		"it was paused meanwhile":  paused,
		"it was disabled meantime": disabled,
	}
	for name, change := range equal {
		t.Run(name, func(t *testing.T) {
			r := newTestEndpointRig(t, nil)
			first := r.create(t, full)
			view, created, err := r.CreateEndpoint(t.Context(), newTestEndpoint(full, change))
			require.NoError(t, err)
			require.False(t, created)
			require.Equal(t, first.Endpoint, view.Endpoint)
			require.Equal(t, 1, r.store.count("create endpoint"))
		})
	}
	different := map[string]func(*d.Endpoint){
		"another tenant":      func(e *d.Endpoint) { e.Tenant = "other" },
		"another URL":         func(e *d.Endpoint) { e.URL += "/2" },
		"other topics":        func(e *d.Endpoint) { e.Topics = []string{"*"} },
		"another description": func(e *d.Endpoint) { e.Description = "" },
		"other metadata":      func(e *d.Endpoint) { e.Metadata = map[string]string{"a": "2"} },
		"another signature":   func(e *d.Endpoint) { e.Signature, e.Secrets = signer.GitHub, nil },
		"another header for the signature": func(e *d.Endpoint) {
			e.Signature, e.Form.Header, e.Secrets = signer.HMACHex, "x-sign", nil
		},
		"another form of the signature": func(e *d.Endpoint) {
			e.Signature, e.Form.Content, e.Secrets = signer.HMAC, signer.TimeDotBody, nil
		},
		"another secret":  func(e *d.Endpoint) { e.Secrets = []d.EndpointSecret{{Secret: signer.NewSecret()}} },
		"another ladder":  func(e *d.Endpoint) { e.Ladder = &longer },
		"no ladder":       func(e *d.Endpoint) { e.Ladder = nil },
		"another timeout": func(e *d.Endpoint) { e.Timeout = 0 },
		"another bound":   func(e *d.Endpoint) { e.MaxInFlight = 6 },
		"another rate":    func(e *d.Endpoint) { e.Rate.Count++ },
		"another header":  func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "X-A", Value: "2"}} },
		"no success":      func(e *d.Endpoint) { e.Success = nil },
		"ordered":         func(e *d.Endpoint) { e.Ordered = true },
	}
	for name, change := range different {
		t.Run(name, func(t *testing.T) {
			r := newTestEndpointRig(t, nil)
			first := r.create(t, full)
			_, created, err := r.CreateEndpoint(t.Context(), newTestEndpoint(full, change))
			require.ErrorIs(t, err, d.ErrTaken)
			require.False(t, created)
			require.Equal(t, first.Endpoint, r.store.stored(first.ID))
		})
	}
}

// mustSecret is the same secret each time.
func mustSecret(t testing.TB) signer.Secret {
	t.Helper()
	s, err := signer.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	return s
}

func TestAnIDThatIsTakenIsMadeAnew(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	var once bool
	r.store.hook = func(name string) error {
		if name == "create endpoint" && !once {
			once = true
			return d.ErrTaken
		}
		return nil
	}
	view := r.create(t)
	calls := r.queue.seen("limit")
	require.Len(t, calls, 2)
	require.NotEqual(t, calls[0].lane, calls[1].lane)
	require.Equal(t, view.Lane(), calls[1].lane)
	require.NotEqual(t, d.LaneDeleted, r.queue.limitsOf(calls[0].lane).Mode, "it is another's lane")

	r.store.hook = failing("create endpoint", d.ErrTaken)
	_, _, err := r.CreateEndpoint(t.Context(), newTestEndpoint())
	require.ErrorIs(t, err, d.ErrTaken, "it ends")
}

func TestALostRaceForAUIDLeavesNoLane(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*d.Endpoint){"equal": func(*d.Endpoint) {}, "different": address("https://other.example")} {
		t.Run(name, func(t *testing.T) {
			r := newTestEndpointRig(t, nil)
			winner := newTestEndpoint(uid("main"), change, func(e *d.Endpoint) {
				e.ID, e.Version, e.Secrets = "ep_000000001", 1, []d.EndpointSecret{{Secret: signer.NewSecret()}}
			})
			r.store.hook = func(name string) error {
				if name == "create endpoint" {
					r.store.put(winner)
				}
				return nil
			}
			view, created, err := r.CreateEndpoint(t.Context(), newTestEndpoint(uid("main")))
			require.False(t, created)
			if name == "equal" {
				require.NoError(t, err)
				require.Equal(t, "ep_000000001", view.ID)
			} else {
				require.ErrorIs(t, err, d.ErrTaken)
			}
			calls := r.queue.seen("limit")
			require.Len(t, calls, 1)
			require.NotEqual(t, d.Lane("ep_000000001"), calls[0].lane)
			require.False(t, r.queue.hasLane(calls[0].lane))
			require.Equal(t, 1, r.store.count("create endpoint"))
		})
	}
}

func TestWithoutAStoreThereAreNoEndpoints(t *testing.T) {
	t.Parallel()
	r := newTestRig(t, nil)
	_, _, err := r.CreateEndpoint(t.Context(), newTestEndpoint())
	require.Error(t, err)
	_, err = r.Endpoint(t.Context(), "main")
	require.ErrorIs(t, err, d.ErrNoEndpoint)
	_, err = r.ChangeEndpoint(t.Context(), "ep_000000001", func(*d.Endpoint) error { return nil })
	require.ErrorIs(t, err, d.ErrNoEndpoint)
	_, err = r.DeleteEndpoint(t.Context(), "ep_000000001")
	require.ErrorIs(t, err, d.ErrNoEndpoint)
	_, err = r.TestEndpoint(t.Context(), "ep_000000001")
	require.ErrorIs(t, err, d.ErrNoEndpoint)
	views, next, err := r.Endpoints(t.Context(), d.EndpointFilter{})
	require.NoError(t, err)
	require.Empty(t, views)
	require.Empty(t, next)
}

func TestEndpointsAreReadWithHowTheirLanesStand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, acceptsOnly)
		r.start(t)
		a := r.create(t, uid("a"))
		pass(time.Millisecond)
		b := r.create(t, tenant("other"), paused)
		r.queue.openBreaker(a.Lane())
		r.publish(t, to("a", "m"))
		for _, name := range []string{a.ID, "a"} {
			view, err := r.Endpoint(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, a.Endpoint, view.Endpoint)
			require.Equal(t, d.StateOpen, view.State)
			require.Equal(t, d.LaneCount{Waiting: 1}, view.LaneCount)
		}
		views, next, err := r.Endpoints(t.Context(), d.EndpointFilter{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, b.ID, views[0].ID)
		require.Equal(t, d.StatePaused, views[0].State)
		views, next, err = r.Endpoints(t.Context(), d.EndpointFilter{Limit: 1, Cursor: next})
		require.NoError(t, err)
		require.Equal(t, a.ID, views[0].ID)
		require.Empty(t, next)
		acme := "acme"
		views, _, err = r.Endpoints(t.Context(), d.EndpointFilter{Tenants: []string{acme}})
		require.NoError(t, err)
		require.Len(t, views, 1)
		_, _, err = r.Endpoints(t.Context(), d.EndpointFilter{Cursor: "x"})
		require.ErrorIs(t, err, d.ErrCursor)
		for _, name := range []string{"nobody", "ep_nobody000", "u_AbCd", "", "a b"} {
			_, err = r.Endpoint(t.Context(), name)
			require.ErrorIs(t, err, d.ErrNoEndpoint, "%q", name)
		}
		r.stop(t)
	})
}

func TestTheTruthIsChangedBeforeItsCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"))
		r.store.journal(r.queue)
		pass(time.Second)
		changed := r.change(t, "main", func(e *d.Endpoint) { e.MaxInFlight, e.Paused = 3, true })
		require.Equal(t, []string{"change endpoint", "limit"}, r.queue.order("limit", "change endpoint")[1:])
		require.Equal(t, int64(2), changed.Version)
		require.Equal(t, view.CreatedAt, changed.CreatedAt)
		require.Equal(t, time.Second, changed.UpdatedAt.Sub(view.UpdatedAt).Truncate(time.Second))
		require.Equal(t, d.StatePaused, changed.State)
		require.Equal(t, changed.Endpoint, r.store.stored(view.ID))
		require.Equal(t, d.LaneLimits{Version: 2, MaxInFlight: 3, Mode: d.LanePaused}, r.queue.limitsOf(view.Lane()))
		require.False(t, r.queue.seen("limit")[1].clear, "a change closes no breaker")

		r.store.hook = failing("change endpoint", d.ErrUnavailable)
		_, err := r.ChangeEndpoint(t.Context(), "main", func(e *d.Endpoint) error { e.Trace = true; return nil })
		require.ErrorIs(t, err, d.ErrUnavailable)
		require.Len(t, r.queue.limited(view.Lane()), 2, "no copy of what is not true")
		r.stop(t)
	})
}

func TestAChangeThatSomebodyWasQuickerThanIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t)
	races := 3
	r.store.hook = func(name string) error {
		if name == "change endpoint" && races > 0 {
			races--
			e := r.store.stored(view.ID).Clone()
			e.Version++
			e.Description += "x"
			r.store.put(e)
		}
		return nil
	}
	calls := 0
	changed, err := r.ChangeEndpoint(t.Context(), view.ID, func(e *d.Endpoint) error {
		calls++
		e.Description += "!"
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 4, calls)
	require.Equal(t, "xxx!", changed.Description)
	require.Equal(t, int64(5), changed.Version)
	require.Equal(t, int64(5), r.queue.limitsOf(view.Lane()).Version)
	require.Len(t, r.queue.limited(view.Lane()), 2, "only what was stored")

	races = 1000
	_, err = r.ChangeEndpoint(t.Context(), view.ID, func(e *d.Endpoint) error { e.Trace = true; return nil })
	require.ErrorIs(t, err, d.ErrStale, "it ends")
	require.Greater(t, races, 900)
}

func TestAChangeThatChangesNothingStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		view := r.create(t, uid("main"))
		pass(time.Second)
		pause := func(e *d.Endpoint) { e.Paused = true }
		r.queue.hook = failing("limit", d.ErrUnavailable)
		_, err := r.ChangeEndpoint(t.Context(), "main", func(e *d.Endpoint) error { pause(e); return nil })
		require.ErrorIs(t, err, d.ErrUnavailable, "it is stored, but the lane has no copy")
		r.queue.hook = nil
		for range 2 {
			again := r.change(t, "main", pause)
			require.Equal(t, int64(2), again.Version)
			require.Equal(t, d.LanePaused, r.queue.limitsOf(view.Lane()).Mode, "the first repeat finishes it")
			require.Len(t, r.queue.limited(view.Lane()), 3)
			pass(time.Second)
		}
		tried, err := r.TryChange(t.Context(), "main", func(e *d.Endpoint) error { e.Paused = false; return nil })
		require.NoError(t, err)
		require.Equal(t, []any{int64(3), d.StateActive}, []any{tried.Version, tried.State})
		require.Equal(t, int64(2), r.store.stored(view.ID).Version)
		require.Len(t, r.queue.limited(view.Lane()), 3)
	})
}

func TestAnErrorOfAChangeComesBackAsItIs(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t)
	refused := errors.New("no")
	_, err := r.ChangeEndpoint(t.Context(), view.ID, func(e *d.Endpoint) error {
		e.URL = "https://elsewhere.example"
		e.Topics[0] = "broken"
		return refused
	})
	require.Equal(t, refused, err)
	require.Zero(t, r.store.count("change endpoint"))
	again, err := r.Endpoint(t.Context(), view.ID)
	require.NoError(t, err)
	require.Equal(t, view.Endpoint, again.Endpoint)
	_, err = r.ChangeEndpoint(t.Context(), "nobody", func(*d.Endpoint) error { return nil })
	require.ErrorIs(t, err, d.ErrNoEndpoint)
}

func TestAnEndpointThatCantBeOpenedIsNotChanged(t *testing.T) {
	t.Parallel()
	r := newTestEndpointRig(t, nil)
	view := r.create(t, func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "X-Token", Value: "t0"}} })
	sealed := r.store.stored(view.ID).Clone()
	sealed.Secrets, sealed.Headers[0].Value = nil, "" // as a store reads it that lacks the key
	r.store.put(sealed)
	_, err := r.RotateSecret(t.Context(), view.ID, signer.Secret{}, time.Hour)
	require.ErrorIs(t, err, d.ErrSealed, "it would lose its headers' values")
	_, err = r.ChangeEndpoint(t.Context(), view.ID, func(e *d.Endpoint) error { e.URL = "https://elsewhere.example"; return nil })
	require.ErrorIs(t, err, d.ErrSealed)
	require.Equal(t, sealed, r.store.stored(view.ID))
	require.Len(t, r.queue.limited(view.Lane()), 1)
	_, err = r.DeleteEndpoint(t.Context(), view.ID)
	require.NoError(t, err, "it can be done without")
}

func TestNothingOfASecretIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestEndpointRig(t, nil)
		r.start(t)
		view := r.create(t, uid("main"), func(e *d.Endpoint) { e.Headers = []d.Header{{Name: "X-Token", Value: "very-secret-token"}} })
		r.publish(t, to("main", "m"))
		synctest.Wait()
		_, err := r.TestEndpoint(t.Context(), "main")
		require.NoError(t, err)
		r.store.hook = failing("endpoints", d.ErrUnavailable)
		_, err = r.Endpoint(t.Context(), "main")
		require.Error(t, err)
		secret := strings.TrimPrefix(view.Secrets[0].Secret.Reveal(), "whsec_")
		require.NotContains(t, r.log.String()+err.Error(), secret)
		require.NotContains(t, r.log.String()+err.Error(), "very-secret-token")
		r.stop(t)
	})
}
