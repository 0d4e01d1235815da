package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
)

func silent(int, int) {}

func TestAnExportHasTheNewestEndOfEachDeliveryOnce(t *testing.T) {
	postgres.ReadLittle(t)
	l := newLibrary(t)
	all := l.drawn(rand.New(rand.NewPCG(5, 6)), 300, l.months(5))
	middle := all[len(all)/2].At
	for _, c := range []struct {
		of   archive.Selection
		keep func(e archive.Event) bool
	}{
		{archive.Selection{}, func(archive.Event) bool { return true }},
		{archive.Selection{Tenant: "t0"}, func(e archive.Event) bool { return e.Tenant == "t0" }},
		{archive.Selection{Tenant: "t0", Subject: "s3", Before: middle}, func(e archive.Event) bool {
			return e.Tenant == "t0" && e.Subject == "s3" && e.At.Before(middle)
		}},
		{archive.Selection{Since: middle}, func(e archive.Event) bool { return !e.At.Before(middle) }},
		{archive.Selection{Tenant: "none"}, func(archive.Event) bool { return false }},
	} {
		var want []string
		for _, e := range all {
			if c.keep(e) {
				want = append(want, namesOf([]archive.End{{Event: e}})...)
			}
		}
		var got []archive.End
		done, of := 0, 0
		require.NoError(t, l.ExportEnds(t.Context(), c.of, func(e *archive.End) error {
			got = append(got, *e)
			return nil
		}, func(d, o int) { done, of = d, o }))
		require.ElementsMatch(t, want, namesOf(got), "%+v", c.of)
		require.Equal(t, of, done)
		for i := range got {
			require.True(t, c.of.Tenant == "" || i == 0 || !got[i].At.Before(got[i-1].At), "the oldest first")
		}
	}
}

func TestMessagesAreExportedWithTheirBodiesWhereTheseAreAskedFor(t *testing.T) {
	l := newLibrary(t)
	first := l.months(3)
	want := map[string]int{}
	for i := range 50 {
		m := dispatcher.Message{ID: fmt.Sprint("m", i), CreatedAt: first.Add(time.Duration(i) * 24 * time.Hour), Topic: "a.b", Tenant: fmt.Sprint("t", i%2), Body: []byte("body")}
		if m.CreatedAt.After(time.Now()) {
			break
		}
		body := m.Body
		if i%3 == 0 {
			body = nil // it is not kept
		}
		l.message(m, "head", body)
		want[m.ID] = i
	}
	for _, bodies := range []bool{true, false} {
		got := map[string]bool{}
		require.NoError(t, l.ExportMessages(t.Context(), archive.Selection{}, bodies, func(f *archive.Found) error {
			require.False(t, got[f.Message.ID])
			got[f.Message.ID] = true
			require.Equal(t, bodies && want[f.Message.ID]%3 != 0, f.HasBody)
			require.Equal(t, "head", string(f.Head))
			require.Equal(t, 4, f.Size)
			return nil
		}, silent))
		require.Len(t, got, len(want))
	}
	n := 0
	require.NoError(t, l.ExportMessages(t.Context(), archive.Selection{Tenant: "t1", Since: first.Add(time.Hour)}, false, func(*archive.Found) error {
		n++
		return nil
	}, silent))
	require.Equal(t, len(want)/2, n)
}

// What ends an export is told as it is, and not as the archive's fault.
func TestAnExportEndsWithItsReader(t *testing.T) {
	l := newLibrary(t)
	l.message(dispatcher.Message{ID: "m", CreatedAt: time.Now().UTC(), Topic: "a.b"}, "head", nil)
	l.event(archive.Event{ID: dispatcher.DeliveryID{Lane: "l", Message: "m"}, At: time.Now(), Kind: archive.Delivered})
	full := errors.New("disk full")
	err := l.ExportMessages(t.Context(), archive.Selection{}, false, func(*archive.Found) error { return full }, silent)
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, archive.ErrUnavailable)
	err = l.ExportEnds(t.Context(), archive.Selection{}, func(*archive.End) error { return full }, silent)
	require.Equal(t, full, err)
}
