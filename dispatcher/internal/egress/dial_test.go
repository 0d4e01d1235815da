package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/egress"
)

func TestAddressIsJudgedOnceMoreWhereItIsConnectedTo(t *testing.T) {
	r := newTestReceiver(t, serve(plainOK))
	for _, proxy := range []*url.URL{nil, r.url(t)} {
		_, err := egress.Connect(t.Context(), egress.Options{Proxy: proxy}, r.addr())
		var refused *egress.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Zero(t, r.accepted.Load())
	}
}

// door is what happens at one address: after a while it opens, or does not.
type door struct {
	after time.Duration
	err   error
}

var errShut = errors.New("shut")

// doors knocks at addresses by their port, which counts from 0.
type doors struct {
	all   []door
	tried atomic.Int64
	open  atomic.Int64
}

func (d *doors) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d.tried.Add(1)
	here := d.all[to.Port()]
	select {
	case <-time.After(here.after):
	case <-ctx.Done():
		if here.err != nil {
			return nil, ctx.Err()
		} // else it opens all the same, too late
	}
	if here.err != nil {
		return nil, here.err
	}
	d.open.Add(1)
	return &opened{port: to.Port(), open: &d.open}, nil
}

type opened struct {
	net.Conn
	port uint16
	open *atomic.Int64
}

func (o *opened) Close() error {
	o.open.Add(-1)
	return nil
}

func TestAddressesAreTriedInTurn(t *testing.T) {
	const never = time.Hour
	cases := []struct {
		name  string
		doors []door
		limit time.Duration
		won   int // -1: none
		tried int64
		took  time.Duration
	}{
		{"the first answers", []door{{0, nil}, {0, nil}}, time.Minute, 0, 1, 0},
		{"the first is slow", []door{{200 * time.Millisecond, nil}, {0, nil}}, time.Minute, 0, 1, 200 * time.Millisecond},
		{"the first is too slow", []door{{time.Second, nil}, {0, nil}}, time.Minute, 1, 2, 250 * time.Millisecond},
		{"the first is down", []door{{0, errShut}, {0, nil}}, time.Minute, 1, 2, 0},
		{"the first hangs and the second is down", []door{{never, errShut}, {0, errShut}, {0, nil}}, time.Minute, 2, 3, 250 * time.Millisecond},
		{"the slow one is still the first", []door{{300 * time.Millisecond, nil}, {time.Second, nil}}, time.Minute, 0, 2, 300 * time.Millisecond},
		{"all are down", []door{{0, errShut}, {0, errShut}, {0, errShut}}, time.Minute, -1, 3, 0},
		{"it is over before it began", []door{{0, nil}, {0, nil}}, 0, -1, 0, 0},
		{"all hang", []door{{never, errShut}, {never, errShut}, {never, errShut}, {never, errShut}}, 600 * time.Millisecond, -1, 3, 600 * time.Millisecond},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &doors{all: tc.doors}
				var to []netip.AddrPort
				for port := range tc.doors {
					to = append(to, netip.AddrPortFrom(netip.IPv6Loopback(), uint16(port)))
				}
				ctx, stop := context.WithTimeout(t.Context(), tc.limit)
				defer stop()
				began := time.Now()
				conn, err := egress.Race(ctx, to, nil, d.connect)
				require.Equal(t, tc.took, time.Since(began))
				require.Equal(t, tc.tried, d.tried.Load())
				if tc.won < 0 {
					require.Error(t, err)
					require.Nil(t, conn)
					require.Zero(t, d.open.Load())
					return
				}
				require.NoError(t, err)
				require.EqualValues(t, tc.won, conn.(*opened).port)
				require.EqualValues(t, 1, d.open.Load(), "those that came too late are closed")
			})
		})
	}
}
