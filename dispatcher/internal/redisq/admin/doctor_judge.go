package admin

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of a check. A list that is too long for one script is read judgeRounds times. If
// a delivery is not in it, it counts as absent. It could be missed only if it was taken
// before each read, and put back behind thousands of others.
const (
	judgeBatch  = 64
	judgeRounds = 2
	listPage    = 5000 // elements of one LRANGE: 0.5 ms
)

// judge checks the suspects of one lane, and repairs them. Each is checked twice, because
// the instance that leased it may have started after the instances were read. It
// registers before it leases anything, so the second check knows it.
func (d *doctor) judge(ctx context.Context, n int, suspects []suspect) error {
	for some := range slices.Chunk(suspects, judgeBatch) {
		wrong, unsure, err := d.judgeSome(ctx, n, some, judging{})
		if err == nil && len(wrong) > 0 {
			if err = d.readHolders(ctx); err == nil {
				_, _, err = d.judgeSome(ctx, n, wrong, judging{last: true})
			}
		}
		for round := 1; err == nil && len(unsure) > 0 && round <= judgeRounds; round++ {
			if unsure, err = d.notReady(ctx, n, unsure); err != nil || len(unsure) == 0 {
				break
			}
			if err = d.readHolders(ctx); err == nil {
				_, unsure, err = d.judgeSome(ctx, n, unsure, judging{last: round == judgeRounds, sure: round == judgeRounds})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judging configures one check.
type judging struct {
	last bool // the final check, which reports and repairs
	sure bool // the whole ready list was read

	bodies bool // the names are fields of bodies, not messages
}

// judgeSome checks at most judgeBatch suspects. It returns the wrong ones, and those that
// may be in a list that is too long for a script.
func (d *doctor) judgeSome(ctx context.Context, n int, suspects []suspect, j judging) (wrong, unsure []suspect, err error) {
	lane, fix := suspects[0].lane, d.e.Fix && j.last
	args := []any{conn.Flag(fix), conn.Flag(j.sure), lane}
	by := map[string]suspect{}
	for _, s := range suspects {
		args = append(args, s.id, s.element, s.line)
		by[s.id] = s
	}
	a, err := d.call(ctx, d.s.scripts.judge, n, args...)
	if err != nil {
		return nil, nil, err
	}
	err = readFaults(a, func(id, kind, detail string) {
		switch {
		case kind == "unsure":
			unsure = append(unsure, by[id])
		case j.last:
			d.report(n, lane+":"+id, kind, detail, fix)
		case len(wrong) == 0 || wrong[len(wrong)-1].id != id:
			wrong = append(wrong, by[id])
		}
	})
	return wrong, unsure, err
}

// notReady returns the suspects that are not in their lane's ready list. It reads from
// the tail, because changes at the head do not shift it.
func (d *doctor) notReady(ctx context.Context, n int, suspects []suspect) ([]suspect, error) {
	key := d.s.tags[n] + keys.Ready + suspects[0].lane
	there := map[string]bool{}
	for read := int64(0); ; read += listPage {
		var page *redis.StringSliceCmd
		err := d.s.conn.At(ctx, "read a ready list", n, func(p redis.Pipeliner) {
			page = p.LRange(ctx, key, -read-listPage, -read-1)
		})
		if err != nil {
			return nil, err
		}
		for _, element := range page.Val() {
			_, id, _ := strings.Cut(element, ":")
			there[id] = true
		}
		if len(page.Val()) < listPage {
			break
		}
	}
	var left []suspect
	for _, s := range suspects {
		if !there[s.id] {
			left = append(left, s)
		}
	}
	return left, nil
}

// judgeBodies checks separately stored bodies by their field names, a page at a time.
func (d *doctor) judgeBodies(ctx context.Context, n int) error {
	scan := bodyScan{d: d, key: d.s.tags[n] + keys.Bodies, count: judgeBatch}
	for {
		fields, err := scan.page(ctx, n)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(fields, judgeBatch) {
			if _, err := d.judgeMessages(ctx, n, some, judging{last: true, bodies: true}); err != nil {
				return err
			}
		}
		if scan.cursor == "" {
			return nil
		}
	}
}

// bodyScan reads the field names of bodies. Before Redis 7.4 they come only with the
// bodies, so the length of a page depends on their sizes.
type bodyScan struct {
	d      *doctor
	key    string
	cursor string
	count  int64
	whole  bool // bodies are read too
}

func (b *bodyScan) page(ctx context.Context, n int) (fields []string, err error) {
	if !b.whole {
		fields, next, err := b.d.s.conn.Scan(ctx, "read bodies", n, b.cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
			return p.HScanNoValues(ctx, b.key, at, "", b.count)
		})
		if err == nil {
			b.cursor = next
			return fields, nil
		}
		if conn.Word(err) == "" || conn.Meaning(err) != nil {
			return nil, err
		}
		b.whole, b.count = true, 1
	}
	page, next, err := b.d.s.conn.Scan(ctx, "read bodies", n, b.cursor, func(p redis.Pipeliner, at uint64) *redis.ScanCmd {
		return p.HScan(ctx, b.key, at, "", b.count)
	})
	if err != nil {
		return nil, err
	}
	b.cursor = next
	bytes := 0
	for i := 0; i+1 < len(page); i += 2 {
		fields, bytes = append(fields, page[i]), bytes+len(page[i+1])
	}
	switch {
	case bytes > walkBytes:
		b.count = max(b.count/2, 1)
	case bytes < walkBytes/4:
		b.count = min(2*b.count, judgeBatch)
	}
	return fields, nil
}

// judgeRecords checks messages and repairs them. It checks twice, for the same reason as
// judge.
func (d *doctor) judgeRecords(ctx context.Context, n int, ids []string) error {
	for some := range slices.Chunk(ids, judgeBatch) {
		wrong, err := d.judgeMessages(ctx, n, some, judging{})
		if err == nil && len(wrong) > 0 {
			if err = d.readHolders(ctx); err == nil {
				_, err = d.judgeMessages(ctx, n, wrong, judging{last: true})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judgeMessages checks at most judgeBatch messages, and returns the wrong ones.
func (d *doctor) judgeMessages(ctx context.Context, n int, ids []string, j judging) (wrong []string, err error) {
	fix := d.e.Fix && j.last
	args := []any{conn.Flag(fix), conn.Flag(j.bodies)}
	for _, id := range ids {
		args = append(args, id)
	}
	a, err := d.call(ctx, d.s.scripts.records, n, args...)
	if err != nil {
		return nil, err
	}
	err = readFaults(a, func(id, kind, detail string) {
		wrong = append(wrong, id)
		if j.last {
			d.report(n, id, kind, detail, fix)
		}
	})
	return slices.Compact(wrong), err
}
