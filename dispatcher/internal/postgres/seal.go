package postgres

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
)

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
