package admin

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Limits of one page of a walk. Each delivery takes about ten commands, so a page
// occupies Redis for a millisecond. If records are large, the page becomes shorter.
const (
	walkPage     = 128
	walkLeast    = 4
	walkBytes    = 512 << 10
	suspectsMost = 2000 // before they are checked
)

// suspect is a delivery that may have a fault.
type suspect struct {
	lane, id string
	element  string // in the ready list
	line     string // <lane>:<key>
}

// walk reads one kind of data in one partition.
type walk struct {
	d         *doctor
	partition int
	kind      keys.Kind
	of        string // the second part of the key's name
	names     []any  // deliveries with a history

	size     int
	suspects []suspect
	messages []string
	unowned  []string // deliveries that are missing in their tenants' lists
	garbage  []string // members that are no names of deliveries
	sealed   []string // messages that may need a key that is not there
	unopened unopened
	ahead    int    // deliveries that were accepted by a clock that was ahead
	first    string // one of them
}

// ready has the hashes of the deliveries in ready lists. A million of them take 40 MB.
type ready map[uint64]struct{}

// places reads all lists and sets of deliveries, and checks the suspects.
func (d *doctor) places(ctx context.Context, n int) error {
	seen := ready{}
	for _, lane := range d.rings[n][keys.Ready] {
		w := &walk{d: d, partition: n, kind: keys.Find(keys.Ready), of: lane}
		if err := w.run(ctx, seen); err != nil {
			return err
		}
	}
	for _, k := range keys.Kinds {
		if k.Of != keys.OfDelivery || k.Type != "zset" || k.Name == keys.Expiring || k.Name == keys.Unopened { // these are not states
			continue
		}
		names := d.named(n, k)
		switch k.Name {
		case keys.Leases:
			names = d.holders
		case keys.Shelf:
			names = slices.DeleteFunc(slices.Clone(names), ofTenant)
		}
		for _, of := range names {
			w := &walk{d: d, partition: n, kind: k, of: of}
			if err := w.run(ctx, seen); err != nil {
				return err
			}
			if w.ahead > 0 {
				d.report(n, d.s.conn.Tag(n)+k.Name, "ahead_accepted", fmt.Sprintf("%d deliveries, %s among them", w.ahead, w.first), false)
			}
		}
	}
	w := &walk{d: d, partition: n, kind: keys.Find(keys.Messages), names: d.s.ownKeys()}
	if err := w.run(ctx, seen); err != nil {
		return err
	}
	if w.unopened.messages > 0 {
		d.report(n, d.s.conn.Tag(n)+keys.Messages, "unopened_headers", fmt.Sprintf("%d messages, %s among them", w.unopened.messages, w.unopened.first), false)
	}
	return nil
}

// records reads the other data of deliveries. It runs after places, so that it does not
// remove data that a repaired delivery needs.
func (d *doctor) records(ctx context.Context, n int) error {
	for _, name := range []string{keys.Fan, keys.Seen, keys.Progress, keys.Marks, keys.Tokens, keys.Expiring, keys.Unopened} {
		w := &walk{d: d, partition: n, kind: keys.Find(name)}
		if err := w.run(ctx, nil); err != nil {
			return err
		}
	}
	if err := d.judgeBodies(ctx, n); err != nil {
		return err
	}
	for names := range slices.Chunk(d.rings[n][keys.History], walkPage) {
		w := &walk{d: d, partition: n, kind: keys.Find(keys.History)}
		for _, name := range names {
			w.names = append(w.names, name)
		}
		if err := w.run(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// word returns the script's word for the kind.
func (w *walk) word() string { return strings.Trim(w.kind.Name, ":") }

// run reads all pages. seen has the ready deliveries, and a walk through a ready list
// adds to it.
func (w *walk) run(ctx context.Context, seen ready) error {
	w.size = walkPage
	for cursor, server := "0", ""; ; {
		a, err := w.d.call(ctx, walkScript, w.partition, append([]any{w.word(), w.of, cursor, w.size}, w.names...)...)
		if err != nil {
			return err
		}
		next := a.Text()
		now := w.d.s.conn.ServerName(a.Text())
		if cursor != "0" && now != server && w.kind.Name != keys.Ready { // a cursor is valid for one process only
			cursor = "0"
			continue
		}
		cursor, server = next, now
		w.fit(a.Number())
		var elements map[string]string
		if w.kind.Name == keys.Ready {
			elements = w.noteReady(a.List(), seen)
		} else if read := int(a.Number()); w.kind.Name == keys.Messages {
			w.d.out.Messages += read
		}
		if err := w.take(a, seen, elements); err != nil {
			return err
		}
		if cursor == "0" || len(w.suspects)+len(w.unowned)+len(w.sealed) > suspectsMost {
			if err := w.judge(ctx); err != nil {
				return err
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

// fit adjusts the size of the next page to the number of bytes.
func (w *walk) fit(bytes int64) {
	switch {
	case bytes > walkBytes:
		w.size = max(w.size/2, walkLeast)
	case bytes < walkBytes/4:
		w.size = min(2*w.size, walkPage)
	}
}

// take reads the suspects of a page. elements are the entries of a ready list by id.
func (w *walk) take(a *conn.Reply, seen ready, elements map[string]string) error {
	line := ""
	if w.kind.Name == keys.Behind {
		line = w.of
	}
	for a.More() {
		letter, name := a.Text(), a.Text()
		lane, id, _ := strings.Cut(name, ":")
		switch letter {
		case "m":
			w.messages = append(w.messages, name)
		case "o":
			w.unowned = append(w.unowned, name)
		case "k":
			w.sealed = append(w.sealed, name)
		case "w":
			w.ahead, w.first = w.ahead+1, name
		case "x":
			w.garbage = append(w.garbage, name)
		case "n":
			if _, is := seen[w.d.hash(name)]; !is {
				w.suspects = append(w.suspects, suspect{lane: lane, id: id, line: line})
			}
		default:
			w.suspects = append(w.suspects, suspect{lane: lane, id: id, element: elements[id], line: line})
		}
	}
	return a.Err
}

func (d *doctor) hash(name string) uint64 { return maphash.String(d.seed, name) }

// noteReady records the entries of a page of a ready list, and returns them by id.
// Entries that were seen before are suspects.
func (w *walk) noteReady(page []any, seen ready) map[string]string {
	elements := map[string]string{}
	for _, v := range page {
		element, _ := v.(string)
		_, id, ok := strings.Cut(element, ":")
		if !ok {
			continue
		}
		elements[id] = element
		hash := w.d.hash(w.of + ":" + id)
		if _, twice := seen[hash]; twice {
			w.suspects = append(w.suspects, suspect{lane: w.of, id: id, element: element})
		}
		seen[hash] = struct{}{}
	}
	return elements
}

// judge checks all suspects so far.
func (w *walk) judge(ctx context.Context) error {
	slices.SortFunc(w.suspects, func(a, b suspect) int { return cmp.Or(strings.Compare(a.lane, b.lane), strings.Compare(a.id, b.id)) })
	all := slices.CompactFunc(w.suspects, func(a, b suspect) bool { return a.lane == b.lane && a.id == b.id })
	for len(all) > 0 {
		end := slices.IndexFunc(all, func(s suspect) bool { return s.lane != all[0].lane })
		if end < 0 {
			end = len(all)
		}
		if err := w.d.judge(ctx, w.partition, all[:end]); err != nil {
			return err
		}
		all = all[end:]
	}
	if err := w.d.judgeRecords(ctx, w.partition, w.messages); err != nil {
		return err
	}
	if err := w.d.judgeNames(ctx, w.partition, "deliveries", "", w.unowned); err != nil {
		return err
	}
	if err := w.d.s.checkHeaders(ctx, w.partition, w.sealed, &w.unopened); err != nil {
		return err
	}
	err := w.removeNames(ctx)
	w.suspects, w.messages, w.unowned, w.garbage, w.sealed = nil, nil, nil, nil, nil
	return err
}

// removeNames reports members that are no names of deliveries, and removes them.
func (w *walk) removeNames(ctx context.Context) error {
	key := w.d.s.conn.Tag(w.partition) + w.kind.Name + w.of
	fix := w.d.e.Fix && w.kind.Name != keys.History // its members are attempts
	for _, name := range w.garbage {
		if fix {
			err := w.d.s.conn.At(ctx, "remove a name", w.partition, func(p redis.Pipeliner) {
				switch w.kind.Type {
				case "list":
					p.LRem(ctx, key, 1, name)
				case "hash":
					p.HDel(ctx, key, name)
				default:
					p.ZRem(ctx, key, name)
				}
			})
			if err != nil {
				return err
			}
		}
		w.d.report(w.partition, name, "broken_name", "in "+key, fix)
	}
	return nil
}

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
	a, err := d.call(ctx, judgeScript, n, args...)
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
	key := d.s.conn.Tag(n) + keys.Ready + suspects[0].lane
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
	scan := bodyScan{d: d, key: d.s.conn.Tag(n) + keys.Bodies, count: judgeBatch}
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
	a, err := d.call(ctx, recordsScript, n, args...)
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
