package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/postgres"
	"github.com/hookladder/hookladder/dispatcher/outbox"
)

func TestRelaysShareAConnectionOfATransactionPooler(t *testing.T) {
	url := pgtest.New(t)
	caller := mustConnect(t, url)
	mustExec(t, caller, outbox.Schema())
	pooled := pgtest.Pool(t, url, 1)
	for n, o := range []*postgres.Outbox{newTestOutbox(t, pooled), newTestOutbox(t, pooled)} {
		id := string(rune('a' + n))
		publish(t, caller, id, `{"topic":"t"}`)
		state, err := o.State(t.Context())
		require.NoError(t, err)
		require.True(t, state.Due)
		require.Equal(t, []string{id}, ids(mustRelay(t, o, 500, ends(dispatcher.RowAccepted)).Rows))
		require.NoError(t, o.Sleep(t.Context()))
		differences, err := o.Differences(t.Context(), outbox.Schema())
		require.NoError(t, err)
		require.Empty(t, differences)
		require.NoError(t, o.Wait(t.Context(), long), "it listens now")
	}
}

func TestArchivesAndReadersShareAConnectionOfATransactionPooler(t *testing.T) {
	pooled := pgtest.Pool(t, pgtest.New(t), 1)
	first, second := newTestArchive(t, pooled), newTestArchive(t, pooled)
	reader, err := postgres.OpenReader(postgres.Options{URL: pooled, QueryTimeout: kit.Patience})
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	for n, a := range []*postgres.Archive{first, second, first, second} {
		instance, l := []string{"one", "two"}[n%2], newLine()
		l.partition, l.epoch = n, fmt.Sprint("e", n)
		leases, err := a.Lease(t.Context(), instance, []archive.Want{{Partition: l.partition, Epoch: l.epoch}})
		require.NoError(t, err)
		require.Len(t, leases, 1)
		id := fmt.Sprint("m", n)
		_, err = a.Write(t.Context(), instance, []archive.Part{l.part(accepted(id), event(archive.Dead, id, 1))})
		require.NoError(t, err)
		require.NoError(t, a.Maintain(t.Context(), 1))
		found, err := reader.Find(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, found.Message.ID)
	}
}
