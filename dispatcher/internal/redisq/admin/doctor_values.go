package admin

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/read"
)

// valuesPage is how many keys, or members of a sorted set, one call reads.
const valuesPage = 1000

// readable checks the values of hashes that scripts decode. The scripts ignore an invalid
// value, so removing it changes nothing else.
var readable = map[string]func(field, text string) bool{
	keys.Lane: func(_, text string) bool { return conn.LaneWhole(text) },
	keys.Limits: func(field, text string) bool {
		if field == keys.Epoch {
			return text != ""
		}
		if field == keys.Readied {
			return isNumber(field, text)
		}
		return conn.LimitsWhole(text)
	},
	keys.Progress: func(_, text string) bool {
		_, err := conn.ParseProgress(text)
		return err == nil
	},
	keys.Tokens: func(_, text string) bool { return tokenText.MatchString(text) },
	keys.Counts: isNumber,
	keys.Buried: isNumber,
	keys.Ends:   isNumber,
	keys.Archive: func(field, text string) bool {
		switch field {
		case "cut", "p", "gap":
			return cutText.MatchString(text)
		case "restoring":
			return text == "held" || text == "free"
		case "b", "dropped":
			return isNumber(field, text)
		}
		return !slices.Contains(forgottenFields, field) || isNumber(field, text)
	},
	keys.Jobs:   CheckJobPart,
	keys.Health: func(_, text string) bool { return figuresText.MatchString(text) },
	keys.In:     func(_, text string) bool { return inText.MatchString(text) && len(text) < 20 },
}

var (
	inText      = regexp.MustCompile(`^[0-9]+ [0-9]+$`)
	tokenText   = regexp.MustCompile(`^[0-9]{1,15} [^ ]+ [^ ]+ [0-9]{1,10}$`)
	figuresText = regexp.MustCompile(`^[0-9]{1,14}( [0-9]{1,14})*$`)
	cutText     = regexp.MustCompile(`^[0-9]{1,15}-[0-9]+$`)
)

func isNumber(_, text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n < conn.NumbersMost && n > -conn.NumbersMost
}

// values checks the types of keys, the values of hashes, and the scores that are times.
// If a key has a wrong type, the data in it can be checked only after it was deleted:
// then whole is false.
func (d *doctor) values(ctx context.Context, n int) (whole bool, err error) {
	wrong, err := d.wrongKinds(ctx, n)
	if err != nil || wrong && !d.e.Fix {
		return false, err
	}
	for _, k := range keys.Kinds {
		if readable[k.Name] == nil {
			continue
		}
		for _, of := range d.named(n, k) {
			if err := d.texts(ctx, n, k, of); err != nil {
				return false, err
			}
		}
	}
	for _, zset := range []string{keys.Due, keys.Done, keys.Dead, keys.Cancelled, keys.Expiring, keys.Unopened, keys.Seen, keys.Known} {
		if err := d.scores(ctx, n, zset); err != nil {
			return false, err
		}
	}
	return true, nil
}

// wrongKinds reports the keys with a wrong type, and deletes them.
func (d *doctor) wrongKinds(ctx context.Context, n int) (found bool, err error) {
	tag := d.s.conn.Tag(n)
	var names []string
	for _, k := range keys.Kinds {
		if !k.Named() {
			names = append(names, k.Name)
		}
		for _, of := range d.rings[n][k.Name] {
			names = append(names, k.Name+of)
		}
	}
	for page := range slices.Chunk(names, valuesPage) {
		types := make([]*redis.StatusCmd, len(page))
		err := d.s.conn.At(ctx, "read types", n, func(p redis.Pipeliner) {
			for i, name := range page {
				types[i] = p.Type(ctx, tag+name)
			}
		})
		if err != nil {
			return found, err
		}
		for i, name := range page {
			k, _, _ := keys.Explain(name)
			is := conn.Value(types[i])
			if is == "none" || is == k.Type {
				continue
			}
			found = true
			if d.e.Fix {
				err = d.s.conn.At(ctx, "remove "+tag+name, n, func(p redis.Pipeliner) { p.Unlink(ctx, tag+name) })
			}
			d.report(n, tag+name, "wrong_type", is+" in place of "+k.Type, d.e.Fix && err == nil)
			if err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// texts reports the invalid values of a hash, and removes them.
func (d *doctor) texts(ctx context.Context, n int, hash keys.Kind, of string) error {
	for page, err := range d.pages(ctx, n, hash, of, entriesAtOnce) {
		if err != nil {
			return err
		}
		args := []any{hash.Name + of}
		for _, e := range page {
			if !readable[hash.Name](e.name, e.value) {
				d.report(n, e.name, "broken_value", "in "+d.s.conn.Tag(n)+hash.Name+of, d.e.Fix)
				args = append(args, e.name, e.value)
			}
		}
		if d.e.Fix && len(args) > 1 {
			if _, err := d.call(ctx, valuesScript, n, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// scores reports the scores that are no valid times, and sets them to the current time.
func (d *doctor) scores(ctx context.Context, n int, zset string) error {
	key := d.s.conn.Tag(n) + zset
	spans := []*redis.ZRangeBy{
		{Min: "-inf", Max: "(0", Count: valuesPage},
		{Min: "(" + strconv.Itoa(conn.LatestMillis), Max: "+inf", Count: valuesPage},
	}
	for _, span := range spans {
		for more := true; more; {
			var list *redis.StringSliceCmd
			call := conn.Call{Partition: n, Fill: func(p redis.Pipeliner) { list = p.ZRangeByScore(ctx, key, span) }}
			call = d.s.conn.Send(ctx, conn.Batch{Doing: "read " + key, Clock: true, Calls: []conn.Call{call}})[0]
			if call.Err != nil {
				return call.Err
			}
			for _, member := range list.Val() {
				d.report(n, member, "score", "in "+key, d.e.Fix)
			}
			if !d.e.Fix || len(list.Val()) == 0 {
				break
			}
			now := float64(call.Now.UnixMilli())
			err := d.s.conn.At(ctx, "repair "+key, n, func(p redis.Pipeliner) {
				for _, member := range list.Val() {
					p.ZAddXX(ctx, key, redis.Z{Score: now, Member: member})
				}
			})
			if err != nil {
				return err
			}
			more = len(list.Val()) == valuesPage
		}
	}
	return nil
}

// ofTenant reports whether a list is one tenant's part of a queue.
func ofTenant(name string) bool {
	_, is := read.ShelfLane(name)
	return is
}

// shelves checks the entries of the lists of deliveries: last digits before the subjects that they find,
// and these before their index. Missing entries were found by the walk through the deliveries before.
func (d *doctor) shelves(ctx context.Context, n int) error {
	for _, name := range []string{keys.Shelf, keys.Tenant, keys.Digits, keys.Subject, keys.Subjects, keys.Owners} {
		k := keys.Find(name)
		for _, of := range d.named(n, k) {
			if name == keys.Shelf && !ofTenant(of) {
				continue // places has checked it
			}
			if err := d.judgeShelves(ctx, n, k, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// judgeShelves checks the entries of one key, and removes wrong ones.
func (d *doctor) judgeShelves(ctx context.Context, n int, k keys.Kind, of string) error {
	for page, err := range d.pages(ctx, n, k, of, walkPage) {
		if err != nil {
			return err
		}
		names := make([]string, len(page))
		for i, e := range page {
			names[i] = e.name
		}
		if err := d.judgeNames(ctx, n, strings.Trim(k.Name, ":"), of, names); err != nil {
			return err
		}
	}
	return nil
}

// judgeNames checks some names with the script.
func (d *doctor) judgeNames(ctx context.Context, n int, kind, of string, names []string) error {
	for some := range slices.Chunk(names, walkPage) {
		args := []any{conn.Flag(d.e.Fix), kind, of}
		for _, name := range some {
			args = append(args, name)
		}
		a, err := d.call(ctx, shelvesScript, n, args...)
		if err != nil {
			return err
		}
		if err := readFaults(a, func(name, fault, detail string) {
			if kind != "deliveries" && kind != "subjects" {
				detail = strings.TrimSpace(kind + " " + of)
			}
			d.report(n, name, fault, detail, d.e.Fix)
		}); err != nil {
			return err
		}
	}
	return nil
}
