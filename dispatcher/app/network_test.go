package app_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/hookladder/hookladder/ladder"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// newTestResolver has the process resolve all names as 127.0.0.1, but none while down.
func newTestResolver(t *testing.T) (down *atomic.Bool) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
				m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: netip.MustParseAddr("127.0.0.1").As4()}}}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	down = &atomic.Bool{}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if down.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = conn.Close()
		<-done
	})
	return down
}

// TestDeadResolverKillsNothing: with this ladder each delivery would be dead at once.
func TestDeadResolverKillsNothing(t *testing.T) {
	const hosts = 60
	down := newTestResolver(t)
	down.Store(true)
	r := newTestReceiver(t)
	o := newTestOptions(redistest.Start(t).URL())
	var err error
	o.Engine.Ladder, err = ladder.Parse("0s 0s")
	require.NoError(t, err)
	p := start(t, o)
	_, port, err := net.SplitHostPort(r.Listener.Addr().String())
	require.NoError(t, err)
	for i := range hosts {
		_, err := p.client().Publish(t.Context(), message(fmt.Sprint("m", i), fmt.Sprintf("http://shop%d.example:%s/", i, port)))
		require.NoError(t, err)
	}
	for i := range hosts {
		require.Eventually(t, func() bool {
			m, err := p.client().Message(t.Context(), fmt.Sprint("m", i))
			return err == nil && m.Deliveries[0].WaitingFor == "egress"
		}, patience, 10*time.Millisecond)
	}
	down.Store(false)
	for range hosts {
		r.answer <- struct{}{}
		r.await(t)
	}
	for i := range hosts {
		require.Eventually(t, func() bool {
			m, err := p.client().Message(t.Context(), fmt.Sprint("m", i))
			return err == nil && m.Deliveries[0].Status == "delivered" && m.Deliveries[0].Attempts == 1
		}, patience, 10*time.Millisecond)
	}
	require.NoError(t, p.end())
}
