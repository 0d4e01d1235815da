package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/outbox"
)

// older makes of the tables what an older schema printed: any role with INSERT sets every
// column.
const older = `alter table hookladder_outbox drop constraint hookladder_outbox_times`

func TestARowWithAnInfiniteTimeHurtsNoOther(t *testing.T) {
	for _, column := range []string{"at", "retry_at"} {
		for _, value := range []string{"infinity", "-infinity", "294276-01-01", "4712-01-01 BC"} {
			t.Run(column+" "+value, func(t *testing.T) {
				_, caller, o := newTestRig(t)
				mustExec(t, caller, older)
				mustExec(t, caller, `insert into hookladder_outbox (id, message, body, `+column+`) values ('odd', '{"topic":"a.b","ordering_key":"k"}', '1', $1)`, value)
				publish(t, caller, "good", `{"topic":"a.b","ordering_key":"k"}`)
				state, err := o.State(t.Context())
				require.NoError(t, err)
				require.True(t, state.Due)
				require.GreaterOrEqual(t, state.Oldest, time.Duration(0))
				b := mustRelay(t, o, 10, ends(dispatcher.RowAccepted))
				require.Contains(t, ids(b.Rows), "good")
				for _, r := range b.Rows {
					require.Less(t, r.Age, 201*365*24*long)
				}
			})
		}
	}
}

func TestTheSchemaTakesNoInfiniteTimeAndMendsOlderTables(t *testing.T) {
	_, caller, o := newTestRig(t)
	mustExec(t, caller, older)
	mustExec(t, caller, `insert into hookladder_outbox (id, message, body, at, retry_at) values ('odd', '{"topic":"a.b"}', '1', 'infinity', 'infinity')`)
	mustExec(t, caller, outbox.Schema())
	require.Equal(t, []string{"odd"}, ids(mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows))
	_, err := caller.Exec(t.Context(), `insert into hookladder_outbox (id, message, body, at) values ('x', '{"topic":"a.b"}', '1', 'infinity')`)
	require.ErrorContains(t, err, "hookladder_outbox_times")
	_, err = caller.Exec(t.Context(), `insert into hookladder_outbox (id, message, body, retry_at) values ('x', '{"topic":"a.b"}', '1', '-infinity')`)
	require.ErrorContains(t, err, "hookladder_outbox_times")
}

// The grants are those of the schema's comment.
func TestARolePublishesWithThreeColumns(t *testing.T) {
	url, caller, o := newTestRig(t)
	mustExec(t, caller, `create role shop`)
	mustExec(t, caller, `grant insert (id, message, body) on hookladder_outbox to shop`)
	mustExec(t, caller, `grant select on hookladder_relay to shop`)
	shop := mustConnect(t, url)
	mustExec(t, shop, `set role shop`)
	publish(t, shop, "good", `{"topic":"a.b"}`)
	for _, column := range []string{"at", "retry_at"} {
		_, err := shop.Exec(t.Context(), `insert into hookladder_outbox (id, message, body, `+column+`) values ('x', '{"topic":"a.b"}', '1', now())`)
		require.ErrorContains(t, err, "permission denied")
	}
	_, err := shop.Exec(t.Context(), `insert into hookladder_outbox (seq, id, message, body) overriding system value values (-1, 'x', '{"topic":"a.b"}', '1')`)
	require.ErrorContains(t, err, "permission denied")
	require.Equal(t, []string{"good"}, ids(mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows))
	mustExec(t, caller, `drop owned by shop`)
	mustExec(t, caller, `drop role shop`)
}

// A view stands for whatever else can't be read of one row: its column fails.
func TestARowThatCanNotBeReadKeepsBackNoOther(t *testing.T) {
	url := pgtest.New(t)
	caller := mustConnect(t, url)
	mustExec(t, caller, outbox.Schema())
	mustExec(t, caller, `alter table hookladder_outbox rename to rows_of_it`)
	mustExec(t, caller, `create view hookladder_outbox as select seq, id,
	case when id = 'odd' then (1 / (length(id) - 3))::text::jsonb else message end as message, body, key, at, retry_at from rows_of_it`)
	for _, id := range []string{"a", "odd", "b"} {
		mustExec(t, caller, `insert into rows_of_it (id, message, body) values ($1, '{"topic":"a.b"}', '1')`, id)
	}
	o := newTestOutbox(t, url)
	require.ErrorIs(t, o.Relay(t.Context(), 10, nil), dispatcher.ErrOutboxData)
	require.Equal(t, []string{"a", "b"}, ids(mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows))
	require.Equal(t, 1, mustCount(t, caller, `select count(*)::int from rows_of_it where id = 'odd' and retry_at > now()`))
	require.Empty(t, mustRelay(t, o, 10, ends(dispatcher.RowAccepted)).Rows)
}
