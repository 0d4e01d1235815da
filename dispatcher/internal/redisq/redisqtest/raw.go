// Package redisqtest has helpers for the tests of the store's packages: a
// reader of raw keys, a gauge of commands, and example endpoints. The reader
// uses only the table of keys from the code under test. A Rig is an empty store
// with its clock, and short ways to use it. A State has the place of each delivery,
// and the records of messages and lanes; State.Faults reports its faults. Package
// model does random things to a store, and compares it with a model of the rules.
package redisqtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// raw reads the keys of one partition without the code under test.
// lua/common.lua defines the format of their texts.
type raw struct {
	t   testing.TB
	tag string
	out State

	clock    *redis.StringCmd
	attempts *redis.XMessageSliceCmd
	index    string                               // the key by which tenants are hidden
	hashes   map[string]*redis.MapStringStringCmd // by their names, without a colon, as in the next maps
	zsets    map[string]*redis.ZSliceCmd
	ready    map[string]*redis.StringSliceCmd // by lanes
	digits   map[string]*redis.StringSliceCmd // by three digits
	history  map[string]*redis.IntCmd         // by deliveries
}

// turnFactor is the factor of the weight in a lane's score.
const turnFactor = 1 << 41

// States reads all partitions of a project.
func States(t testing.TB, client redis.UniversalClient, project string, partitions int) []State {
	t.Helper()
	found := Keys(t, client, project)
	index := client.HGet(context.Background(), "{"+project+"}:meta", "index").Val()
	states := make([]State, partitions)
	for n := range states {
		tag := fmt.Sprintf("{%s:%d}", project, n)
		r := &raw{t: t, tag: tag, index: index, out: NewState(), hashes: map[string]*redis.MapStringStringCmd{}, zsets: map[string]*redis.ZSliceCmd{},
			ready: map[string]*redis.StringSliceCmd{}, digits: map[string]*redis.StringSliceCmd{}, history: map[string]*redis.IntCmd{}}
		names := []string{}
		found = slices.DeleteFunc(found, func(key string) bool {
			name, mine := strings.CutPrefix(key, tag+":")
			if mine {
				names = append(names, name)
			}
			return mine
		})
		r.read(client, names)
		states[n] = r.out
	}
	for _, key := range found {
		if key != "{"+project+"}:meta" && key != "{"+project+"}:instances" && key != "{"+project+"}:about" && key != "{"+project+"}:departed" && key != "{"+project+"}:audit" && key != "{"+project+"}:added" && !strings.HasPrefix(key, "{"+project+"}:health:") && key != "{"+project+"}:jobs" {
			states[0].Unknown = append(states[0].Unknown, key)
		}
	}
	return states
}

// Keys returns the keys of a project in their order.
func Keys(t testing.TB, client redis.UniversalClient, project string) []string {
	t.Helper()
	var keys []string
	scan := func(client redis.Cmdable) {
		iter := client.Scan(context.Background(), 0, "{"+project+"[:}]*", 10_000).Iterator()
		for iter.Next(context.Background()) {
			keys = append(keys, iter.Val())
		}
		require.NoError(t, iter.Err())
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		var one sync.Mutex // the nodes reply at the same time
		require.NoError(t, cluster.ForEachMaster(context.Background(), func(_ context.Context, node *redis.Client) error {
			one.Lock()
			defer one.Unlock()
			scan(node)
			return nil
		}))
	} else {
		scan(client)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// CopyKeys copies all keys of a project but its clocks. restore brings them back, any
// number of times.
func CopyKeys(t testing.TB, client redis.UniversalClient, project string) (restore func()) {
	t.Helper()
	ctx := context.Background()
	names := func() []string {
		return slices.DeleteFunc(Keys(t, client, project), func(key string) bool { return strings.HasSuffix(key, ":clock") })
	}
	kept := names()
	dumps, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range kept {
			p.Dump(ctx, key)
		}
		return nil
	})
	require.NoError(t, err)
	return func() {
		now := names()
		_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, now...)
			for i, key := range kept {
				p.Restore(ctx, key, 0, dumps[i].(*redis.StringCmd).Val())
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// read reads all keys in one round trip and parses them.
func (r *raw) read(client redis.UniversalClient, names []string) {
	r.t.Helper()
	ctx := context.Background()
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys.Kinds {
			switch name := strings.TrimPrefix(k.Name, ":"); {
			case k.Named():
			case k.Type == "hash":
				r.hashes[name] = p.HGetAll(ctx, r.tag+k.Name)
			case k.Type == "zset":
				r.zsets[name] = p.ZRangeWithScores(ctx, r.tag+k.Name, 0, -1)
			}
		}
		r.clock = p.Get(ctx, r.tag+":clock")
		r.attempts = p.XRange(ctx, r.tag+":attempts", "-", "+")
		for _, name := range names {
			k, of, known := keys.Explain(":" + name)
			switch key := r.tag + ":" + name; {
			case !known:
				r.fault("key %s", key)
			case !k.Named():
			case k.Name == keys.Ready:
				r.ready[of] = p.LRange(ctx, key, 0, -1)
			case k.Name == keys.Digits:
				r.digits[of] = p.LRange(ctx, key, 0, -1)
			case k.Name == keys.Health: // figures, on which nothing depends
			case k.Name == keys.History:
				r.history[of] = p.LLen(ctx, key)
			default:
				r.zsets[name] = p.ZRangeWithScores(ctx, key, 0, -1)
			}
		}
		return nil
	})
	require.NoError(r.t, err)
	r.readPlaces()
	r.readBehind()
	r.readDeliveries()
	r.readMessages()
	r.readShelves()
	r.readTenants()
	r.readSubjects()
	r.readLanes()
	r.readLimits()
	r.readStopped()
	r.readPlacement()
	r.readCounts()
	r.readReported()
}

func (r *raw) fault(format string, args ...any) {
	r.out.Unknown = append(r.out.Unknown, fmt.Sprintf(format, args...))
}

func (r *raw) id(name string) dispatcher.DeliveryID {
	id, ok := dispatcher.ParseDeliveryID(name)
	if !ok {
		r.fault("delivery %q", name)
	}
	return id
}

// scan parses the numbers and words of a text.
func (r *raw) scan(text, format string, into ...any) {
	if n, err := fmt.Sscanf(text, format, into...); err != nil || n != len(into) {
		r.fault("%q is not of the form %q", text, format)
	}
}

func (r *raw) found(id dispatcher.DeliveryID, f Found) {
	r.out.Found[id] = append(r.out.Found[id], f)
}

func (r *raw) readPlaces() {
	places := map[string]Place{
		"due": PlaceDue, "done": PlaceDone,
		"dead": PlaceDead, "cancelled": PlaceCancelled,
	}
	for name, cmd := range r.zsets {
		if name == "taken" {
			r.readTaken(cmd.Val())
			continue
		}
		if name == "expiring" {
			for _, z := range cmd.Val() {
				r.out.Expiring[r.id(z.Member.(string))] = int64(math.Ceil(z.Score)) // half a ms later if it is checked again
			}
			continue
		}
		if name == "unopened" {
			for _, z := range cmd.Val() {
				r.out.Unopened[r.id(z.Member.(string))] = int64(z.Score)
			}
			continue
		}
		holder, leases := strings.CutPrefix(name, "leases:")
		place, isPlace := places[name]
		if !isPlace && !leases {
			continue
		}
		for _, z := range cmd.Val() {
			id := r.id(z.Member.(string))
			if leases {
				place = PlaceLeased
				r.out.Leases[holder] = append(r.out.Leases[holder], id)
			}
			r.found(id, Found{Place: place, At: int64(z.Score), Holder: holderOf(leases, holder)})
			if status := math.Round((z.Score - math.Floor(z.Score)) * 1000); place == PlaceDone && status > 0 {
				r.out.Plain[id] = int(status)
			}
		}
	}
	for lane, cmd := range r.ready {
		for _, element := range cmd.Val() {
			due, message, ok := strings.Cut(element, ":")
			if !ok {
				r.fault("ready element %q", element)
			}
			var ms int64
			r.scan(due, "%d", &ms)
			id := dispatcher.DeliveryID{Lane: dispatcher.Lane(lane), Message: message}
			r.out.Ready[id.Lane] = append(r.out.Ready[id.Lane], id)
			r.found(id, Found{Place: PlaceReady, At: ms})
		}
	}
}

// readTaken reads the taken deliveries, each with its token and owner. It also
// reads the last leases of deliveries that are not taken now.
func (r *raw) readTaken(taken []redis.Z) {
	tokens := r.hashes["tokens"].Val()
	for _, z := range taken {
		name := z.Member.(string)
		id := r.id(name)
		t := Taken{Until: int64(z.Score)}
		r.whole(tokens[name], "%d %s %s %d", &t.Since, &t.Token, &t.Owner, &t.Attempt)
		r.out.Taken[id] = t
		r.found(id, Found{Place: PlaceTaken, At: t.Since, Holder: t.Owner})
		delete(tokens, name)
	}
	for name, text := range tokens {
		var t Taken
		r.whole(text, "%d %s %s %d", &t.Since, &t.Token, &t.Owner, &t.Attempt)
		r.out.Last[r.id(name)] = t
	}
}

func holderOf(leased bool, holder string) string {
	if leased {
		return holder
	}
	return ""
}

func (r *raw) readDeliveries() {
	for name, mark := range r.hashes["marks"].Val() {
		if len(mark) > 1 { // after d comes the ms of the success
			var ms int64
			r.whole(mark, "d%d", &ms)
		}
		r.out.Marks[r.id(name)] = Mark(mark[:1])
	}
	for name, text := range r.hashes["progress"].Val() {
		var p Progress
		var reason string
		var job int
		if at := strings.LastIndex(text, " z"); at > 0 {
			r.whole(text[at:], " z%d", &p.Snoozes)
			text = text[:at]
		}
		format := "%d %d %d %d %d %s %d %d"
		if strings.Contains(text, "+") {
			format += "+"
		}
		into := []any{&p.Attempts, &p.Base, &p.Deaths, &p.Status, &p.Asked, &reason, &p.Beside, &job}
		if strings.Count(text, " ") > strings.Count(format, " ") {
			var status, number int
			format, into = format+" %d %d %d", append(into, &p.Delivered, &status, &number)
		}
		r.whole(text, format, into...)
		if reason != "-" {
			p.Reason = dispatcher.DeadReason(reason)
		}
		r.out.Progress[r.id(name)] = p
	}
	for name, length := range r.history {
		r.out.History[r.id(name)] = int(length.Val())
	}
}

// atKey is the position of the key's hash in a record: after the digest (16)
// and three times (6 each). The last of these times is its expiry. The length
// of its lane, and its lane, follow.
const (
	atKey     = 16 + 3*6
	atExpires = atKey - 6
	atLane    = atKey + 8
)

// metaBody is the first tag of meta if a body is stored in :bodies. It comes
// after the lane, meta's length and its format.
const metaBody = 12

// bodyName makes a field of :bodies readable: it writes the digest in hex.
func bodyName(field string) string {
	return fmt.Sprintf("%s %x", field[:len(field)-17], field[len(field)-16:])
}

func (r *raw) readMessages() {
	for id, record := range r.hashes["messages"].Val() {
		m := Stored{Whole: len(record) > 16, Lanes: map[dispatcher.Lane]bool{}}
		fan, fanned := r.hashes["fan"].Val()[id]
		switch {
		case fanned:
			for _, name := range strings.Fields(fan) {
				lane, gone := strings.CutPrefix(name, "-")
				m.Lanes[dispatcher.Lane(lane)] = !gone
			}
		case m.Whole:
			size := int(record[atLane])
			m.Lanes[dispatcher.Lane(record[atLane+1:atLane+1+size])] = true
		}
		if m.Whole && record[atKey:atLane] != strings.Repeat("\x00", 8) {
			m.Key = fmt.Sprintf("%x", record[atKey:atLane])
		}
		if m.Whole {
			for _, b := range []byte(record[atExpires:atKey]) {
				m.Expires = m.Expires<<8 | int64(b)
			}
			m.At = int64(binary.BigEndian.Uint64([]byte("\x00\x00" + record[16:22])))
		}
		if m.Whole {
			m.Owner = r.owner(record)
		}
		if m.Whole && record[atLane+4+int(record[atLane])] == metaBody {
			m.Apart = bodyName(id + " " + record[:16])
		}
		r.out.Messages[id] = m
	}
	for field := range r.hashes["bodies"].Val() {
		r.out.Bodies[bodyName(field)] = false
	}
	for _, z := range r.zsets["staged"].Val() {
		r.out.Bodies[bodyName(z.Member.(string))] = true
	}
	for id := range r.hashes["fan"].Val() {
		r.out.Fanned = append(r.out.Fanned, id)
	}
	slices.Sort(r.out.Fanned)
	for _, z := range r.zsets["seen"].Val() {
		r.out.Seen[z.Member.(string)] = int64(z.Score)
	}
}

func (r *raw) readCounts() {
	for status, text := range r.hashes["counts"].Val() {
		var n int64
		r.scan(text, "%d", &n)
		r.out.Counts[dispatcher.Status(status)] = n
	}
	for field, text := range r.hashes["ends"].Val() {
		var n int64
		r.scan(text, "%d", &n)
		r.out.Ends[field] = n
	}
	for field, text := range r.hashes["buried"].Val() {
		lane, reason, _ := strings.Cut(field, " ")
		var n int64
		r.scan(text, "%d", &n)
		if r.out.Buried[dispatcher.Lane(lane)] == nil {
			r.out.Buried[dispatcher.Lane(lane)] = map[dispatcher.DeadReason]int64{}
		}
		r.out.Buried[dispatcher.Lane(lane)][dispatcher.DeadReason(reason)] = n
	}
}

// readReported reads the log lines about ends without an attempt. It checks that
// every line has its form.
func (r *raw) readReported() {
	for _, entry := range r.attempts.Val() {
		if entry.Values["a"] != nil || entry.Values["z"] != nil {
			continue // for the archive: it has no lines
		}
		text, _ := entry.Values["l"].(string)
		lines := strings.Split(text, "\n")
		if codes, ok := entry.Values["c"].(string); ok && len(codes) != len(lines) {
			r.fault("stream: %d codes for %d lines", len(codes), len(lines))
		}
		for _, line := range lines {
			words := strings.Split(line, " ")
			if len(words) != 6 {
				r.fault("stream: line %q", line)
				continue
			}
			if words[1] == "dead" || words[1] == "cancelled" {
				id := r.id(words[0])
				r.out.Reported[id] = append(r.out.Reported[id], words[1]+" "+words[5])
			}
		}
	}
}
