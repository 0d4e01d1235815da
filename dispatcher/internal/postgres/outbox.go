package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookladder/hookladder/dispatcher"
)

const (
	// batchBytes limits a transaction, like a batch over HTTP.
	batchBytes = 4 << 20
	// mostWaiting limits how many waiting rows are read. There is one for each key of a
	// batch and destination of the key.
	mostWaiting = 10_000
)

// Outbox is the outbox of one database, for the engine's Relay. The tables are in package
// dispatcher/outbox. It has one connection for relaying and one for notifications. A connection
// that failed is replaced.
//
// Relay runs one transaction: lock the relay's row, read due rows, call the
// relay, and delete, reject or delay the rows. State, Sleep and Wait are for the time when
// there is nothing to relay.
type Outbox struct {
	config *pgx.ConnConfig
	most   int  // larger rows are not read
	singly bool // the last batch could not be read: read the next one row by row
	work   *pgx.Conn
	ear    *pgx.Conn
}

var _ dispatcher.Outbox = (*Outbox)(nil)

// NewOutbox returns the outbox at a URL. If a row has more than most bytes, only its size is
// read. Errors have no part of the URL, because it may have a password.
func NewOutbox(url string, most int) (*Outbox, error) {
	config, err := configOf(url, outboxName)
	if err != nil {
		return nil, err
	}
	return &Outbox{config: config, most: most}, nil
}

// connect returns a connection, and makes one if there is none.
func (o *Outbox) connect(ctx context.Context, c **pgx.Conn) (*pgx.Conn, error) {
	if *c != nil && (*c).IsClosed() {
		*c = nil
	}
	if *c == nil {
		fresh, err := pgx.ConnectConfig(ctx, o.config)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		*c = fresh
	}
	return *c, nil
}

// Close closes the connections.
func (o *Outbox) Close() {
	drop(&o.work)
	drop(&o.ear)
}

func drop(c **pgx.Conn) {
	if *c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = (*c).Close(ctx)
	*c = nil
}

// begin sets timeouts, so that a relay that stops in a transaction does not block others
// for long. They are local to the transaction, because a pooler may hand the connection to
// another client.
const begin = `begin; set local statement_timeout = '30s'; set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = '30s'`

// lockRelay lets one relay work at a time. The lock ends with the transaction, so two
// relays never overlap.
const lockRelay = `select asleep from hookladder_relay for update skip locked`

// readRows reads due rows. It omits the texts of rows that are too large.
const readRows = `
select seq, id, case when size <= $3 then text end, case when size <= $3 then body end, age, key from (
	select *, sum(size) over (order by seq) as upto from (
		select seq, id, text, body, key, octet_length(text) + coalesce(octet_length(body), 0) as size,
			case when isfinite(at) then extract(epoch from clock_timestamp() - at)::float8 else 0 end as age
		from (
			select seq, id, message::text as text, body, at, key from hookladder_outbox
			where retry_at is null or retry_at <= now() or not isfinite(retry_at) order by seq limit $1 for update skip locked
		) as due
	) as sized
) as summed where upto <= $2 or upto = size order by seq`

// readOne reads one row that is already locked.
const readOne = `
select seq, id, case when size <= $2 then text end, case when size <= $2 then body end, age, key from (
	select seq, id, message::text as text, body, key, octet_length(message::text) + coalesce(octet_length(body), 0) as size,
		case when isfinite(at) then extract(epoch from clock_timestamp() - at)::float8 else 0 end as age
	from hookladder_outbox where seq = $1
) as sized`

// readWaiting reads the first waiting row of each key and destination. It returns null as
// the body, because only the destination is needed.
const readWaiting = `
select distinct on (key, message ->> 'endpoint', message ->> 'queue', message ->> 'url', message ->> 'tenant')
	seq, id, message::text, case when body is not null then 'null'::bytea end, key, extract(epoch from retry_at - now())::float8
from hookladder_outbox where retry_at > now() and isfinite(retry_at) and key = any($1)
order by key, message ->> 'endpoint', message ->> 'queue', message ->> 'url', message ->> 'tenant', seq limit $2`

// Relay relays one batch.
func (o *Outbox) Relay(ctx context.Context, most int, carry func(context.Context, dispatcher.OutboxBatch) (dispatcher.OutboxDone, error)) error {
	conn, err := o.connect(ctx, &o.work)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		drop(&o.work)
		return outboxError(err)
	}
	ours := false // the error comes from carry, not from the database
	err = outboxError(o.relay(ctx, tx, most, func(ctx context.Context, b dispatcher.OutboxBatch) (dispatcher.OutboxDone, error) {
		done, err := carry(ctx, b)
		ours = err != nil
		return done, err
	}))
	if err == nil {
		return nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	failed := tx.Rollback(back)
	if !ours && (failed != nil || !answered(err)) {
		drop(&o.work) // the next connection may be to another server, because this one may be read-only now
	}
	return err
}

// answered reports whether the error comes from a server that works.
func answered(err error) bool {
	return errors.Is(err, dispatcher.ErrOutboxBusy) || errors.Is(err, dispatcher.ErrOutboxData) || errors.Is(err, dispatcher.ErrOutboxMissing)
}

func (o *Outbox) relay(ctx context.Context, tx pgx.Tx, most int, carry func(context.Context, dispatcher.OutboxBatch) (dispatcher.OutboxDone, error)) error {
	var b dispatcher.OutboxBatch
	switch err := tx.QueryRow(ctx, lockRelay).Scan(&b.Asleep); {
	case errors.Is(err, pgx.ErrNoRows):
		return busy(ctx, tx)
	case err != nil:
		return err
	}
	var unreadable []int64
	var err error
	if o.singly {
		b.Rows, unreadable, err = o.readSingly(ctx, tx, most)
	} else {
		b.Rows, err = o.readDue(ctx, tx, readRows, most, batchBytes, o.most)
	}
	if o.singly = errors.Is(outboxError(err), dispatcher.ErrOutboxData); err != nil {
		return err
	}
	var keys []string
	for _, r := range b.Rows {
		if r.Key != "" {
			keys = append(keys, r.Key)
		}
	}
	if b.Waiting, err = readBehind(ctx, tx, keys); err != nil {
		return err
	}
	done, err := carry(ctx, b)
	if err != nil {
		return err
	}
	for _, seq := range unreadable {
		done.Fates = append(done.Fates, dispatcher.RowFate{Seq: seq, Result: dispatcher.RowWaits, Wait: unreadableWait})
	}
	if err := end(ctx, tx, done); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// busy explains why the relay's row could not be locked: another relay works, or there is
// no outbox.
func busy(ctx context.Context, tx pgx.Tx) error {
	var there bool
	if err := tx.QueryRow(ctx, `select exists (select from hookladder_relay)`).Scan(&there); err != nil {
		return err
	}
	if !there {
		return dispatcher.ErrOutboxMissing
	}
	return dispatcher.ErrOutboxBusy
}

// seconds converts seconds to a Duration of at most 200 years, because a clock or a caller
// may be wrong.
func seconds(s float64) time.Duration {
	const most = 200 * 365 * 24 * 3600
	return time.Duration(min(max(s, -most), most) * float64(time.Second))
}

// readBehind reads the waiting rows of some ordering keys.
func readBehind(ctx context.Context, tx pgx.Tx, keys []string) ([]dispatcher.OutboxRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, readWaiting, keys, mostWaiting)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r dispatcher.OutboxRow, err error) {
		var wait float64
		err = row.Scan(&r.Seq, &r.ID, &r.Message, &r.Body, &r.Key, &wait)
		r.Wait = seconds(wait)
		return r, err
	})
}

// end writes the results of a batch.
func end(ctx context.Context, tx pgx.Tx, done dispatcher.OutboxDone) error {
	var gone, rejected, waits []int64
	var problems []string
	var waitFor []float64
	for _, f := range done.Fates {
		switch f.Result {
		case dispatcher.RowAccepted, dispatcher.RowDuplicate, dispatcher.RowUnmatched:
			gone = append(gone, f.Seq)
		case dispatcher.RowRejected:
			rejected, problems = append(rejected, f.Seq), append(problems, storable(f.Problem))
		case dispatcher.RowWaits:
			waits, waitFor = append(waits, f.Seq), append(waitFor, f.Wait.Seconds())
		}
	}
	var batch pgx.Batch
	if len(gone) > 0 {
		batch.Queue(`delete from hookladder_outbox where seq = any($1)`, gone)
	}
	if len(rejected) > 0 {
		batch.Queue(`with gone as (
	delete from hookladder_outbox as o using unnest($1::bigint[], $2::text[]) as r(seq, problem) where o.seq = r.seq
	returning o.seq, o.id, o.message, o.body, o.at, r.problem)
insert into hookladder_rejected (id, message, body, at, problem) select id, message, body, at, problem::jsonb from gone order by seq`, rejected, problems)
	}
	if len(waits) > 0 {
		batch.Queue(`update hookladder_outbox as o set retry_at = now() + w.wait * interval '1 second'
from unnest($1::bigint[], $2::float8[]) as w(seq, wait) where o.seq = w.seq`, waits, waitFor)
	}
	if done.Awake {
		batch.Queue(`update hookladder_relay set asleep = false where asleep`)
	}
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// storable returns a problem that jsonb can store, without NUL. Invalid JSON would fail the
// batch.
func storable(problem []byte) string {
	return string(bytes.ReplaceAll(problem, []byte(`\u0000`), []byte(`\ufffd`)))
}

// State reads the state of the outbox.
func (o *Outbox) State(ctx context.Context) (state dispatcher.OutboxState, err error) {
	var oldest float64
	err = o.queryRow(ctx, `select exists (select from hookladder_outbox where retry_at is null or retry_at <= now() or not isfinite(retry_at)),
	coalesce((select extract(epoch from clock_timestamp() - at)::float8 from hookladder_outbox where isfinite(at) order by seq limit 1), 0),
	(select asleep from hookladder_relay), (select count(*) from hookladder_rejected)`, &state.Due, &oldest, &state.Asleep, &state.Rejected)
	state.Oldest = max(seconds(oldest), 0)
	return state, err
}

// Sleep makes callers notify.
func (o *Outbox) Sleep(ctx context.Context) error {
	var asleep bool
	err := o.queryRow(ctx, `update hookladder_relay set asleep = true
where one in (select one from hookladder_relay where not asleep for update skip locked) returning asleep`, &asleep)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // another relay works, or did it already
	}
	return err
}

// OldestTransaction returns the age, in transactions, of the oldest transaction that blocks vacuum, and
// its process id.
func (o *Outbox) OldestTransaction(ctx context.Context) (age, pid int64, err error) {
	err = o.queryRow(ctx, `select age(backend_xmin), pid from pg_stat_activity
where backend_xmin is not null and datname = current_database() order by 1 desc limit 1`, &age, &pid)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, nil
	}
	return age, pid, err
}

// queryRow reads one row outside of a transaction.
func (o *Outbox) queryRow(ctx context.Context, query string, into ...any) error {
	conn, err := o.connect(ctx, &o.work)
	if err != nil {
		return err
	}
	err = conn.QueryRow(ctx, query).Scan(into...)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		drop(&o.work)
	}
	return outboxError(err)
}

// Wait waits for a notification of a caller.
func (o *Outbox) Wait(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	fresh := o.ear == nil || o.ear.IsClosed()
	conn, err := o.connect(ctx, &o.ear)
	if err != nil {
		return err
	}
	if fresh {
		if _, err = conn.Exec(ctx, `listen hookladder_outbox`); err != nil {
			drop(&o.ear)
		}
		return err
	}
	_, err = conn.WaitForNotification(ctx)
	switch {
	case err == nil, pgconn.Timeout(err) && !conn.IsClosed():
		return nil
	default:
		drop(&o.ear)
		return err
	}
}

// outboxError converts an error of PostgreSQL to the errors of dispatcher.Outbox.
func outboxError(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return err
	}
	switch code := refused.Code; {
	case code == "42P01", code == "42703", code == "42883", code == "3F000": // no such table, column, function, schema
		return dispatcher.ErrOutboxMissing
	case strings.HasPrefix(code, "22"), strings.HasPrefix(code, "23"):
		return errors.Join(dispatcher.ErrOutboxData, err)
	}
	return err
}

// readDue reads rows that are due.
func (o *Outbox) readDue(ctx context.Context, tx pgx.Tx, query string, values ...any) ([]dispatcher.OutboxRow, error) {
	rows, err := tx.Query(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r dispatcher.OutboxRow, err error) {
		var age float64
		var key *string
		err = row.Scan(&r.Seq, &r.ID, &r.Message, &r.Body, &age, &key)
		if r.Age = seconds(age); key != nil {
			r.Key = *key
		}
		return r, err
	})
}

const (
	// singlyMost limits a batch that is read row by row, each in its own savepoint.
	singlyMost = 50
	// unreadableWait is the delay of a row that could not be read. An operator has to fix
	// it.
	unreadableWait = time.Minute
)

// readSingly reads rows one by one, so that an unreadable row does not block the others.
func (o *Outbox) readSingly(ctx context.Context, tx pgx.Tx, most int) (all []dispatcher.OutboxRow, unreadable []int64, err error) {
	rows, err := tx.Query(ctx, `select seq from hookladder_outbox
where retry_at is null or retry_at <= now() or not isfinite(retry_at) order by seq limit $1 for update skip locked`, min(most, singlyMost))
	if err != nil {
		return nil, nil, err
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, nil, err
	}
	bytes := 0
	for _, seq := range due {
		if bytes >= batchBytes {
			break
		}
		point, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return nil, nil, err
		}
		one, err := o.readDue(ctx, point, readOne, seq, o.most)
		if err == nil {
			err = point.Commit(ctx)
		} else if errors.Is(outboxError(err), dispatcher.ErrOutboxData) {
			unreadable = append(unreadable, seq)
			err = point.Rollback(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, r := range one {
			all, bytes = append(all, r), bytes+len(r.Message)+len(r.Body)
		}
	}
	return all, unreadable, nil
}

var (
	tableOf    = regexp.MustCompile(`(?s)create table if not exists (hookladder_\w+) \(\n(.*?)\n\)`)
	columnOf   = regexp.MustCompile(`(?m)^    (\w+) `)
	functionOf = regexp.MustCompile(`(?s)create or replace function (hookladder_\w+)\(.*?as \$\$(.*?)\$\$`)
)

// Differences compares the tables and functions of the outbox with a schema. It returns a clause
// for each one that is missing or different, and writes nothing.
func (o *Outbox) Differences(ctx context.Context, schema string) (found []string, err error) {
	conn, err := o.connect(ctx, &o.work)
	if err != nil {
		return nil, err
	}
	for _, table := range tableOf.FindAllStringSubmatch(schema, -1) {
		have, err := queryTexts(ctx, conn, `select attname::text from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`, table[1])
		if err != nil {
			return nil, err
		}
		if len(have) == 0 {
			found = append(found, "the table "+table[1]+" is missing")
			continue
		}
		for _, column := range columnOf.FindAllStringSubmatch(table[2], -1) {
			if !slices.Contains(have, column[1]) {
				found = append(found, fmt.Sprintf("the table %s has no column %s", table[1], column[1]))
			}
		}
	}
	for _, function := range functionOf.FindAllStringSubmatch(schema, -1) {
		have, err := queryTexts(ctx, conn, `select prosrc from pg_proc where proname = $1 and pg_function_is_visible(oid)`, function[1])
		if err != nil {
			return nil, err
		}
		switch {
		case len(have) == 0:
			found = append(found, "the function "+function[1]+" is missing")
		case !slices.ContainsFunc(have, func(text string) bool { return strings.TrimSpace(text) == strings.TrimSpace(function[2]) }):
			found = append(found, "the function "+function[1]+" is another one")
		}
	}
	return found, nil
}

// queryTexts runs a query of one column.
func queryTexts(ctx context.Context, conn *pgx.Conn, query, of string) ([]string, error) {
	rows, err := conn.Query(ctx, query, of)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
