package admin_test

import (
	"fmt"
	"time"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// damage is something that doctor finds and repairs.
type damage struct {
	name  string
	do    func(p *ward)
	kind  string
	where map[string]redisqtest.Place // deliveries, after the repair; empty: nowhere
}

// takenDamages are those of leases that end by themselves.
var takenDamages = []damage{
	{"taken without a message", func(p *ward) { p.lose("taken") }, "no_record", map[string]redisqtest.Place{"b:taken": ""}},
	{"a taken one is nowhere", func(p *ward) { p.do("DEL", p.key("taken"), p.key("tokens")); p.do("ZREM", p.key("parked"), "~taken") }, "no_place", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceReady}},
	{"taken and ready", func(p *ward) { p.do("LPUSH", p.key("ready:b"), "1:taken") }, "two_places", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceTaken}},
	{"taken and delivered", func(p *ward) { p.do("ZADD", p.key("done"), 1, "b:taken") }, "two_places", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceDone}},
	{"taken and leased", func(p *ward) { p.do("ZADD", p.key("taken"), p.now.UnixMilli(), "b:leased") }, "two_places", nil},
	{"taken without a token", func(p *ward) { p.do("DEL", p.key("tokens")) }, "no_token", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceTaken}},
	{"a token that can't be read", func(p *ward) { p.do("HSET", p.key("tokens"), "b:taken", "x") }, "broken_value", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceTaken}},
	{"a token of what is ready, which can't be read", func(p *ward) { p.do("HSET", p.key("tokens"), "a:r1", "1 t o") }, "broken_value", map[string]redisqtest.Place{"a:r1": redisqtest.PlaceReady}},
	{"a last lease of what ended", func(p *ward) { p.do("HSET", p.key("tokens"), "a:done", "1 t o 1") }, "token", nil},
	{"a token of nothing", func(p *ward) { p.do("HSET", p.key("tokens"), "x:y", "1 t o 1") }, "token", nil},
	{"a queue has no turn", func(p *ward) { p.queue(); p.do("ZREM", p.key("pulls"), "q_a") }, "stuck", map[string]redisqtest.Place{"q_a:queued": redisqtest.PlaceReady}},
	{"a queue has a turn among those that are called", func(p *ward) {
		p.queue()
		p.do("ZREM", p.key("pulls"), "q_a")
		p.do("ZADD", p.key("lanes"), 1, "q_a")
	}, "stuck", map[string]redisqtest.Place{"q_a:queued": redisqtest.PlaceReady}},
	{"a queue with nothing in it has a turn", func(p *ward) {
		p.queue()
		p.do("DEL", p.key("ready:q_a"))
		p.do("HDEL", p.key("in"), "q_a")
		p.do("HDEL", p.key("messages"), "queued")
		p.do("ZREM", p.key("of:q_a"), "queued")
	}, "turn", map[string]redisqtest.Place{"q_a:queued": ""}},
	{"nobody is told of a lease", func(p *ward) { p.do("ZREM", p.key("parked"), "~taken") }, "timer", nil},
	{"a lease is told of too late", func(p *ward) { p.do("ZADD", p.key("parked"), p.now.Add(61*time.Minute).UnixMilli(), "~taken") }, "timer", nil},
	{"a lease is told of that there is not", func(p *ward) {
		p.do("DEL", p.key("taken"), p.key("tokens"))
		p.do("RPUSH", p.key("ready:b"), "1:taken")
	}, "timer", map[string]redisqtest.Place{"b:taken": redisqtest.PlaceReady}},
}

// queue puts a message into a queue.
func (p *ward) queue() {
	p.Helper()
	p.put("queued", to("q_a"))
	p.mustBeSound()
}

// take has a lease of the instance end by itself in an hour.
func (p *ward) take(delivery string) {
	p.Helper()
	p.do("ZREM", p.key("leases:one"), delivery)
	p.do("ZADD", p.key("taken"), p.now.Add(time.Hour).UnixMilli(), delivery)
	p.do("HSET", p.key("tokens"), delivery, fmt.Sprint(p.now.UnixMilli(), " t1 o1 1"))
	p.do("ZADD", p.key("parked"), p.now.Add(time.Hour).UnixMilli(), "~taken")
}
