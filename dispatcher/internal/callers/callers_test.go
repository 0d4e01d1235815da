package callers_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/callers"
)

var errFull = errors.New("full")

var (
	ops      = callers.Key("ops")
	shop     = callers.Key("shop")
	merchant = callers.Link("m7")
	other    = callers.Link("m8")
)

func TestTheAddressOfACallerIsTheLastThatIsNoProxy(t *testing.T) {
	proxies := callers.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		remote string
		values []string
		want   string
	}{
		"no proxy":                       {"192.0.2.1", []string{"192.0.2.9"}, "192.0.2.1"},
		"a proxy that names nobody":      {"10.0.0.1", nil, "10.0.0.1"},
		"one proxy":                      {"10.0.0.1", []string{"192.0.2.9"}, "192.0.2.9"},
		"what a caller made up":          {"10.0.0.1", []string{"10.9.9.9, 192.0.2.1, 192.0.2.9"}, "192.0.2.9"},
		"two proxies":                    {"10.0.0.1", []string{"192.0.2.1, 192.0.2.9, 10.0.0.2"}, "192.0.2.9"},
		"two headers":                    {"10.0.0.1", []string{"192.0.2.1", "192.0.2.9 , 10.0.0.2"}, "192.0.2.9"},
		"a port":                         {"10.0.0.1", []string{"192.0.2.9:4711"}, "192.0.2.9"},
		"a port of IPv6":                 {"fd00::1", []string{"[2001:db8::9]:4711"}, "2001:db8::9"},
		"IPv4 in IPv6":                   {"::ffff:10.0.0.1", []string{"192.0.2.9"}, "192.0.2.9"},
		"no address":                     {"10.0.0.1", []string{"192.0.2.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		"proxies alone":                  {"10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"more proxies than are asked of": {"10.0.0.1", []string{"192.0.2.9" + strings.Repeat(", 10.0.0.2", 16)}, "10.0.0.2"},
	} {
		require.Equal(t, c.want, proxies.Address(netip.MustParseAddr(c.remote), c.values).String(), name)
	}
}

func TestANetworkOfIPv6IsOneCaller(t *testing.T) {
	at := func(text string) callers.Identity { return callers.Address(netip.MustParseAddr(text)) }
	require.Equal(t, at("2001:db8::1"), at("2001:db8::ffff:ffff:1"))
	require.NotEqual(t, at("2001:db8::1"), at("2001:db8:0:1::1"))
	require.NotEqual(t, at("192.0.2.1"), at("192.0.2.2"))
	require.Equal(t, at("192.0.2.1"), at("::ffff:192.0.2.1"))
}

// reader reads lists, one after another, and notes each.
type reader struct {
	turns *callers.Shares
	mu    sync.Mutex // guards began
	began []string
}

// read begins to read in the background. It ends with a value in the channel.
func (r *reader) read(t *testing.T, who callers.Identity) (end chan<- struct{}, failed <-chan error) {
	ends, errs := make(chan struct{}), make(chan error, 1)
	ctx := callers.With(t.Context(), who)
	go func() {
		_, leave, err := r.turns.Enter(ctx)
		errs <- err
		if err != nil {
			return
		}
		r.mu.Lock()
		r.began = append(r.began, who.Name)
		r.mu.Unlock()
		<-ends
		leave()
	}()
	synctest.Wait()
	return ends, errs
}

func TestTurnsGoRoundByCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{turns: callers.NewTurns(2, errFull)}
		var ends []chan<- struct{}
		for _, who := range []callers.Identity{ops, ops, ops, ops, shop, shop, merchant} {
			end, _ := r.read(t, who)
			ends = append(ends, end)
		}
		require.Equal(t, []string{"ops", "ops"}, r.began, "two at once")
		for _, i := range []int{0, 1, 2, 4, 6, 3, 5} {
			close(ends[i])
			synctest.Wait()
		}
		require.Equal(t, []string{"ops", "ops", "ops", "shop", "m7", "ops", "shop"}, r.began)
	})
}

func TestTheLinksOfATenantReadOneListAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{turns: callers.NewTurns(2, errFull)}
		var ends []chan<- struct{}
		for range 16 {
			end, _ := r.read(t, merchant)
			ends = append(ends, end)
		}
		require.Equal(t, []string{"m7"}, r.began)
		for range 3 { // the other turn is free for the others
			for _, who := range []callers.Identity{ops, other} {
				end, _ := r.read(t, who)
				close(end)
				synctest.Wait()
			}
		}
		require.Equal(t, []string{"m7", "ops", "m8", "ops", "m8", "ops", "m8"}, r.began)
		for _, end := range ends {
			close(end)
		}
		synctest.Wait()
		require.Len(t, r.began, 22)
	})
}

func TestACallerThatWaitsOftenLeavesRoomToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{turns: callers.NewTurns(2, errFull)}
		var ends []chan<- struct{}
		for range 17 { // one reads, and sixteen wait
			end, failed := r.read(t, merchant)
			require.NoError(t, errOf(failed))
			ends = append(ends, end)
		}
		_, failed := r.read(t, merchant)
		require.ErrorIs(t, errOf(failed), errFull)
		for _, who := range []callers.Identity{ops, shop} {
			end, failed := r.read(t, who)
			require.NoError(t, errOf(failed))
			ends = append(ends, end)
		}
		for _, end := range ends {
			close(end)
		}
		synctest.Wait()
		require.Len(t, r.began, 19)
	})
}

func TestTheCallerWithTheMostMakesRoomWhereAllTogetherWaitTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{turns: callers.NewTurns(2, errFull)}
		var ends []chan<- struct{}
		for i := range 258 { // two read, and the others wait
			end, failed := r.read(t, callers.Key(fmt.Sprint("k", i%40)))
			require.NoError(t, errOf(failed))
			ends = append(ends, end)
		}
		end, failed := r.read(t, merchant)
		ends = append(ends, end)
		require.NoError(t, errOf(failed))
		for _, end := range ends {
			close(end)
		}
		synctest.Wait()
		require.Equal(t, len(ends)-1, len(r.began), "one of those with the most was refused")
		require.Contains(t, r.began, "m7")
	})
}

// errOf is an error that there is by now; nil: there is none so far.
func errOf(failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func TestOneThatGivesUpHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := callers.NewTurns(2, errFull)
		_, one, err := turns.Enter(t.Context())
		require.NoError(t, err)
		_, two, err := turns.Enter(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(callers.With(t.Context(), shop))
		failed := make(chan error, 1)
		go func() {
			_, _, err := turns.Enter(ctx)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		one()
		two()
		for range 2 {
			_, leave, err := turns.Enter(t.Context())
			require.NoError(t, err)
			defer leave()
		}
	})
}

func TestTheCallerWithTheMostWaitsLosesItsOldest(t *testing.T) {
	w := callers.NewWaiting(3)
	enter := func(who callers.Identity) (context.Context, func(), bool) {
		held, leave, err := w.Enter(callers.With(t.Context(), who))
		return held, leave, err == nil
	}
	first, leaveFirst, ok := enter(ops)
	require.True(t, ok)
	second, _, _ := enter(ops)
	third, leaveThird, _ := enter(ops)
	_, _, ok = enter(ops)
	require.False(t, ok, "it has the most itself")
	require.False(t, callers.CrowdedOut(first))
	_, leave, ok := enter(shop)
	require.True(t, ok)
	require.True(t, callers.CrowdedOut(first))
	require.ErrorIs(t, first.Err(), context.Canceled)
	require.False(t, callers.CrowdedOut(second))
	_, _, ok = enter(shop)
	require.False(t, ok, "it would have as many")
	_, _, ok = enter(merchant)
	require.True(t, ok)
	require.True(t, callers.CrowdedOut(second))
	require.False(t, callers.CrowdedOut(third))
	leaveFirst() // it has none any more
	_, _, ok = enter(other)
	require.False(t, ok)
	leaveThird()
	leave()
	leave()
	for range 2 {
		_, _, ok = enter(ops)
		require.True(t, ok)
	}
	_, _, ok = enter(ops)
	require.False(t, ok)
	require.False(t, callers.CrowdedOut(t.Context()))
}

func TestPlacesAreLimitedByRank(t *testing.T) {
	p := callers.NewPlaces(4, map[callers.Rank]int{callers.Linked: 2, callers.Keyed: 3}, errFull)
	var leave func()
	for i, c := range []struct {
		who callers.Identity
		ok  bool
	}{{merchant, true}, {merchant, true}, {merchant, false}, {ops, true}, {other, true}, {ops, false}} {
		_, left, err := p.Enter(callers.With(t.Context(), c.who))
		require.Equal(t, c.ok, err == nil, i)
		if c.ok {
			leave = left
			continue
		}
		require.ErrorIs(t, err, errFull)
	}
	leave()
	_, _, err := p.Enter(callers.With(t.Context(), ops))
	require.NoError(t, err)
}

func TestAddressesOfThisHost(t *testing.T) {
	for _, address := range []string{"127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "localhost:80", "LOCALHOST", "[::ffff:127.0.0.1]:80", "127.0.0.1", "::1", "[::1]"} {
		require.True(t, callers.IsLoopback(address), address)
	}
	for _, address := range []string{":80", "0.0.0.0:80", "[::]:80", "10.0.0.1:80", "localhost.example:80", "127.0.0.1.example", ""} {
		require.False(t, callers.IsLoopback(address), address)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("10.0.0.1, 192.0.2.9", "[2001:db8::1]:5")
	f.Add(",,,", "10.0.0.1:x")
	proxies := callers.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	remote := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, one, two string) {
		a := proxies.Address(remote, []string{one, two})
		require.True(t, a.IsValid())
		require.Equal(t, callers.Stranger, callers.Address(a).Rank)
		if a != remote {
			require.Contains(t, strings.ToLower(one+two), strings.Split(a.String(), ":")[0])
		}
	})
}
