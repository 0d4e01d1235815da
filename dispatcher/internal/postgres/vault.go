package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Vault reads an archive to restore a lost store. One command uses it, without a time
// limit.
type Vault struct {
	pool   *pgxpool.Pool
	schema schema
}

var _ archive.Vault = (*Vault)(nil)

// OpenVault connects to an archive.
func OpenVault(ctx context.Context, o Options) (*Vault, error) {
	conn, err := configOf(o.URL, archiveName)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	config.ConnConfig, config.MaxConns = conn, 3 // for the lock, a stream, and one more query
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fault("open the archive", err)
	}
	v := &Vault{pool: pool, schema: schemaOf(o.Project)}
	err = v.check(ctx)
	if err == nil {
		return v, nil
	}
	pool.Close()
	if errors.Is(err, ErrNothing) {
		return nil, err
	}
	return nil, fault("open the archive", err)
}

// ErrNothing is returned if the database has no archive of the project.
var ErrNothing = errors.New("there are no tables of this project: nothing was ever archived here")

// check returns an error if the archive can't be read by this program.
func (v *Vault) check(ctx context.Context) error {
	var n int
	err := v.pool.QueryRow(ctx, v.schema.sql("select max(n) from hookladder.version")).Scan(&n)
	switch {
	case noTables(err):
		return ErrNothing
	case err != nil:
		return err
	case n < len(texts()):
		return fmt.Errorf("%w: %d, and this program needs %d: start an instance of it with ARCHIVE_URL once, which adds what they lack", archive.ErrVersion, n, len(texts()))
	}
	return usable(ctx, v.pool.QueryRow, v.schema, n)
}

// Close closes all connections.
func (v *Vault) Close() { v.pool.Close() }

// restoring is the row of table position that a restore locks.
const restoring = -1

// Lock prevents other restores until release is called or this process ends.
func (v *Vault) Lock(ctx context.Context) (release func(), err error) {
	_, err = v.pool.Exec(ctx, v.schema.sql( // committed at once, or other restores would wait here
		"insert into hookladder.position (partition, epoch, ms, seq, last) values ($1, '', 0, 0, 0) on conflict do nothing"), restoring)
	if err != nil {
		return nil, fault("begin a restore", err)
	}
	tx, err := v.pool.Begin(ctx)
	if err != nil {
		return nil, fault("begin a restore", err)
	}
	give := func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }
	_, err = tx.Exec(ctx, "set local idle_in_transaction_session_timeout = 0")
	if err == nil {
		_, err = tx.Exec(ctx, v.schema.sql("select from hookladder.position where partition = $1 for update nowait"), restoring)
	}
	if err == nil {
		return give, nil
	}
	give()
	if codeOf(err) == codeLocked {
		return nil, errors.New("another restore is running: wait until it ends, or stop it")
	}
	return nil, fault("begin a restore", err)
}

// archivedUntil selects how far a partition was archived when it was lost, even if its new data
// are archived already. The position in the log counts too, because lines that are no event, as
// changes of endpoints, move only that.
const archivedUntil = `
with lost as (
  select coalesce(left_last, greatest(last, ms << 20)) as last, case when left_last is null then gap_ms else left_gap end as gap
  from hookladder.position
  where partition >= 0 and coalesce(left_last, greatest(last, ms << 20)) > 0 and (left_last is not null or epoch <> '' and epoch <> all ($1::text[]))
)
select coalesce(min(lost.last), every.last, 0) >> 20, coalesce(max(lost.last), every.last, 0) >> 20, coalesce(max(lost.gap), 0), now()
from lost right join (select max(greatest(last, ms << 20)) from hookladder.position where partition >= 0) as every (last) on true
group by every.last`

// Ends returns when the lost partitions were archived last, by the store's clock. A
// partition is lost if its epoch is not in but, or if it was lost after the last KeepHome.
// If the archive has no lost partition, all count. Partitions that were never archived are
// ignored.
func (v *Vault) Ends(ctx context.Context, but []string) (e archive.Ends, err error) {
	var first, last, gap int64
	if err = v.pool.QueryRow(ctx, v.schema.sql(archivedUntil), list(but)).Scan(&first, &last, &gap, &e.Now); err != nil {
		return e, fault("read how far the store is archived", err)
	}
	if last > 0 {
		e.First, e.Last = time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
	}
	if gap > 0 {
		e.Gap = time.UnixMilli(gap).UTC()
	}
	e.Now = e.Now.UTC()
	return e, nil
}

// CountOpen counts unfinished deliveries, except those of the given epochs.
func (v *Vault) CountOpen(ctx context.Context, but []string) (n int64, err error) {
	err = v.pool.QueryRow(ctx, v.schema.sql("select count(*) from hookladder.open where epoch <> all ($1::text[])"), list(but)).Scan(&n)
	if err != nil {
		return 0, fault("count unfinished deliveries", err)
	}
	return n, nil
}

// list returns a slice that is never nil, because nil is encoded as null.
func list(texts []string) []string { return append([]string{}, texts...) }

// ofMessage joins the message of a row o of table open that lacks its own head. It reads
// the month of the row's time first, then all months.
const ofMessage = `
left join lateral (
  select head, body from (
    select 1 as rank, m.head, m.body from hookladder.message m
    where o.head is null and m.id = o.id and m.created = o.created
      and m.month = date_trunc('month', o.created at time zone 'UTC')::date
    union all
    select 2, m.head, m.body from hookladder.message m
    where o.head is null and m.id = o.id and m.created = o.created and not exists (
      select from hookladder.message n where n.id = o.id and n.created = o.created
        and n.month = date_trunc('month', o.created at time zone 'UTC')::date)
  ) found order by rank limit 1
) m on true`

// Open reads unfinished deliveries with head and body, ordered by Pos, except those of the
// given epochs.
func (v *Vault) Open(ctx context.Context, but []string) iter.Seq2[archive.Open, error] {
	text := "select o." + strings.ReplaceAll(openColumns, ", ", ", o.") + `, coalesce(o.head, m.head), coalesce(o.body, m.body)
		from (select * from hookladder.open where epoch <> all ($1::text[]) order by pos, lane, id) o ` + ofMessage
	q := vaultQuery{"read unfinished deliveries", text, []any{list(but)}}
	return stream(ctx, v, q, func(row pgx.CollectableRow) (archive.Open, error) { return scanWhole(row) })
}

// historyMost is the number of attempts of one delivery that are restored. Most ladders have
// at most that many rungs.
const historyMost = 10

// History fills in the newest attempts of deliveries that were attempted.
func (v *Vault) History(ctx context.Context, of []*archive.Open) error {
	at := map[dispatcher.DeliveryID]*archive.Open{}
	var ids, lanes, since []string
	for _, o := range of {
		if o.Attempts > 0 && at[o.ID] == nil {
			at[o.ID] = o
			ids, lanes, since = append(ids, o.ID.Message), append(lanes, string(o.ID.Lane)), append(since, monthOf(o.Created).String())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := v.pool.Query(ctx, v.schema.sql("select e."+strings.ReplaceAll(eventColumns, ", ", ", e.")+`
		from unnest($1::text[], $2::text[], $3::text[]) as want (id, lane, since)
		cross join lateral (
			select * from hookladder.event e
			where e.id = want.id and e.lane = want.lane and e.began is not null and e.month >= want.since::date
			order by e.at desc, e.pos desc limit $4
		) e
		order by e.id, e.lane, e.at desc, e.pos desc`), ids, lanes, since, historyMost)
	if err != nil {
		return fault("read attempts", err)
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	if err != nil {
		return fault("read attempts", err)
	}
	for i := range events {
		if o := at[events[i].ID]; o != nil {
			o.History = append(o.History, events[i])
		}
	}
	return nil
}

// Endpoints reads all endpoints and paused lanes.
func (v *Vault) Endpoints(ctx context.Context) (endpoints []archive.Endpoint, holds []archive.PausedLane, err error) {
	rows, err := v.pool.Query(ctx, v.schema.sql("select id, version, record, deleted is not null from hookladder.endpoint order by id"))
	if err == nil {
		endpoints, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e archive.Endpoint, err error) {
			return e, row.Scan(&e.ID, &e.Version, &e.Record, &e.Deleted)
		})
	}
	if err == nil {
		rows, err = v.pool.Query(ctx, v.schema.sql("select "+pausedColumns+" from hookladder.hold order by lane"))
	}
	if err == nil {
		holds, err = pgx.CollectRows(rows, scanPausedLane)
	}
	if err != nil {
		return nil, nil, fault("read endpoints", err)
	}
	return endpoints, holds, nil
}

// Known reads the ids of deliveries that ended since then, newest first, at most most.
func (v *Vault) Known(ctx context.Context, since time.Time, most int) iter.Seq2[archive.Known, error] {
	text := `select o.id, o.lane, o.at, substring(m.head for 16)
		from hookladder.event o
		join lateral (
			select head from hookladder.message m where m.id = o.id and m.head is not null order by created desc limit 1
		) m on true
		where o.kind in ('d', 'x', 'c', '?') and o.at >= $1 and o.month >= $2
		order by o.at desc limit $3`
	q := vaultQuery{"read known ids", text, []any{since, monthOf(since).first(), most}}
	return stream(ctx, v, q, func(row pgx.CollectableRow) (k archive.Known, err error) {
		var lane string
		var digest []byte
		err = row.Scan(&k.ID, &lane, &k.Ended, &digest)
		k.Lane, k.Ended = dispatcher.Lane(lane), k.Ended.UTC()
		copy(k.Digest[:], digest)
		return k, err
	})
}

// deadRows are the deliveries that died since $1 and were not resent, each with its message m.
const deadRows = `
from hookladder.event o
join lateral (
	select created, head, body from hookladder.message m where m.id = o.id and m.head is not null order by created desc limit 1
) m on true
where o.kind = 'x' and o.at >= $1 and o.month >= $2
	and not exists (select from hookladder.event e where e.id = o.id and e.lane = o.lane and e.partition = o.partition and e.pos > o.pos)
	and not exists (select from hookladder.open p where p.id = o.id and p.lane = o.lane)
order by o.at desc limit $3`

// Dead reads the deliveries that died since then and were not resent, newest first, at most
// most.
func (v *Vault) Dead(ctx context.Context, since time.Time, most int) iter.Seq2[archive.DeadOne, error] {
	text := `select o.id, o.lane, o.partition, '', m.created, o.pos, null::timestamptz, o.n, o.n, 0, null::timestamptz, o.topic, o.tenant, o.subject,
			m.head, m.body, o.at, o.reason, o.status ` + deadRows
	q := vaultQuery{"read the dead", text, []any{since, monthOf(since).first(), most}}
	return stream(ctx, v, q, func(row pgx.CollectableRow) (d archive.DeadOne, err error) {
		var reason *string
		d.Open, err = scanWhole(row, &d.Ended, &reason, &d.Status)
		d.Ended, d.Reason = d.Ended.UTC(), dispatcher.DeadReason(value(reason))
		return d, err
	})
}

// Note writes an entry into the archive's audit.
func (v *Vault) Note(ctx context.Context, by, what string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("note: %w", err)
	}
	_, err = v.pool.Exec(ctx, v.schema.sql("insert into hookladder.audit (by, what, detail) values ($1, $2, $3::jsonb)"), by, what, string(text))
	if err != nil {
		return fault("note", err)
	}
	return nil
}

// scanWhole scans a row of openColumns, head and body, and more columns.
func scanWhole(row pgx.CollectableRow, more ...any) (o archive.Open, err error) {
	var head, body []byte
	o, err = scanOpenAnd(row, append([]any{&head, &body}, more...)...)
	o.Head, o.Body = head, body
	return o, err
}

// vaultQuery is a query and its verb for errors.
type vaultQuery struct {
	verb, text string
	values     []any
}

// stream reads rows one by one, so that any number fits into memory.
func stream[T any](ctx context.Context, v *Vault, q vaultQuery, scan pgx.RowToFunc[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		rows, err := v.pool.Query(ctx, v.schema.sql(q.text), q.values...)
		if err != nil {
			yield(none, fault(q.verb, err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			one, err := scan(rows)
			if err != nil {
				yield(none, fault(q.verb, err))
				return
			}
			if !yield(one, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(none, fault(q.verb, err))
		}
	}
}

// sealPage is how many heads one statement replaces. Each has at most 16 KiB.
const sealPage = 256

// sealUnfinished reads the heads that a restore puts back into the store: of the row itself, or
// of its message. Those of one message follow each other.
const sealUnfinished = `
select o.id, o.lane, o.created, o.head is not null, coalesce(o.head, m.head)
from hookladder.open o ` + ofMessage + ` order by o.id, o.created, o.lane`

// sealDead reads the heads that restore --dead puts back.
const sealDead = `select o.id, o.lane, m.created, false, m.head ` + deadRows

// These replace a head unless it was replaced or removed in the meantime. The archiver never
// changes a head that is there, so that both may work at once.
const (
	sealOpen = `
update hookladder.open o set head = new.head
from unnest($1::text[], $2::text[], $3::timestamptz[], $4::bytea[], $5::bytea[]) as new (id, lane, created, old, head)
where o.id = new.id and o.lane = new.lane and o.created = new.created and o.head = new.old`
	sealMessage = `
update hookladder.message m set head = new.head
from unnest($1::text[], $2::text[], $3::timestamptz[], $4::bytea[], $5::bytea[]) as new (id, lane, created, old, head)
where m.id = new.id and m.created = new.created and m.head = new.old`
)

// storedHead is the head of one row.
type storedHead struct {
	id, lane string
	created  time.Time
	own      bool // the row has it, not its message
	head     []byte
}

// Resealed counts what SealHeads did.
type Resealed struct {
	Sealed int // heads that were replaced
	Left   int // heads that seal refused
}

// SealHeads replaces the heads of unfinished messages, and of the messages of deliveries that died
// since then (at most most), by what seal makes of them. It may be stopped and repeated, because seal
// returns a head unchanged that is as it should be.
func (v *Vault) SealHeads(ctx context.Context, since time.Time, most int, seal func(id string, head []byte) ([]byte, error)) (all Resealed, err error) {
	for _, q := range []vaultQuery{
		{"read unfinished messages", sealUnfinished, nil},
		{"read the dead", sealDead, []any{since, monthOf(since).first(), most}},
	} {
		if err := v.sealHeads(ctx, stream(ctx, v, q, scanHead), seal, &all); err != nil {
			return all, err
		}
	}
	return all, nil
}

func scanHead(row pgx.CollectableRow) (h storedHead, err error) {
	return h, row.Scan(&h.id, &h.lane, &h.created, &h.own, &h.head)
}

func (v *Vault) sealHeads(ctx context.Context, heads iter.Seq2[storedHead, error], seal func(id string, head []byte) ([]byte, error), all *Resealed) error {
	var open, messages headPage
	var last storedHead
	for h, err := range heads {
		if err != nil {
			return err
		}
		if h.head == nil || !h.own && !last.own && h.id == last.id && h.created.Equal(last.created) {
			continue // the record was gone, or it is of the same message
		}
		last = h
		head, err := seal(h.id, h.head)
		if err != nil {
			all.Left++
			continue
		}
		if bytes.Equal(head, h.head) {
			continue
		}
		page, text := &messages, sealMessage
		if h.own {
			page, text = &open, sealOpen
		}
		if page.add(h, head); len(page.ids) == sealPage {
			if err := v.replaceHeads(ctx, text, page, all); err != nil {
				return err
			}
		}
	}
	if err := v.replaceHeads(ctx, sealOpen, &open, all); err != nil {
		return err
	}
	return v.replaceHeads(ctx, sealMessage, &messages, all)
}

// headPage is some heads with their replacements.
type headPage struct {
	ids, lanes []string
	created    []time.Time
	old, heads [][]byte
}

func (p *headPage) add(h storedHead, head []byte) {
	p.ids, p.lanes, p.created = append(p.ids, h.id), append(p.lanes, h.lane), append(p.created, h.created)
	p.old, p.heads = append(p.old, h.head), append(p.heads, head)
}

// replaceHeads writes a page and empties it.
func (v *Vault) replaceHeads(ctx context.Context, text string, p *headPage, all *Resealed) error {
	if len(p.ids) == 0 {
		return nil
	}
	tag, err := v.pool.Exec(ctx, v.schema.sql(text), p.ids, p.lanes, p.created, p.old, p.heads)
	if err != nil {
		return fault("seal messages", err)
	}
	all.Sealed += int(tag.RowsAffected())
	*p = headPage{}
	return nil
}
