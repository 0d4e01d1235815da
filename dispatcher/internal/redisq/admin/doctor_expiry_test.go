package admin_test

import (
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// expiryDamages are those of deliveries whose message expires.
var expiryDamages = []damage{
	{"nothing would end a ready one when it expires", func(p *ward) { p.expiring("e"); p.do("DEL", p.key("expiring")) }, "no_expiry", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceReady}},
	{"nothing would end a due one when it expires", func(p *ward) { p.expiring("e", later); p.do("ZREM", p.key("expiring"), "e:expires") }, "no_expiry", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceDue}},
	{"nothing would end one behind another when it expires", func(p *ward) { p.expiring("k", keyed); p.do("ZREM", p.key("expiring"), "k:expires") }, "no_expiry", map[string]redisqtest.Place{"k:expires": redisqtest.PlaceBehind}},
	{"one that expires is nowhere", func(p *ward) { p.expiring("e"); p.do("DEL", p.key("ready:e"), p.key("expiring")) }, "no_place", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceReady}},
	{"one that ended is to expire", func(p *ward) { p.do("ZADD", p.key("expiring"), p.now.Add(time.Hour).UnixMilli(), "a:done") }, "expiry", nil},
	{"nothing is to expire", func(p *ward) { p.do("ZADD", p.key("expiring"), p.now.Add(time.Hour).UnixMilli(), "x:y") }, "expiry", nil},
	{"what expires names no delivery", func(p *ward) { p.do("ZADD", p.key("expiring"), 1, "x") }, "broken_name", nil},
	{"one that ended waits for a key", func(p *ward) { p.do("ZADD", p.key("unopened"), 1, "a:done") }, "key_wait", nil},
	{"nothing waits for a key", func(p *ward) { p.do("ZADD", p.key("unopened"), 1, "x:y") }, "key_wait", nil},
	{"what waits for a key names no delivery", func(p *ward) { p.do("ZADD", p.key("unopened"), 1, "x") }, "broken_name", nil},
	{"the time since when it waits for a key is none", func(p *ward) { p.expiring("e"); p.do("ZADD", p.key("unopened"), "inf", "e:expires") }, "score", nil},
	{"what expires is delivered too", func(p *ward) { p.expiring("e"); p.do("ZADD", p.key("done"), 1, "e:expires") }, "two_places", map[string]redisqtest.Place{"e:expires": redisqtest.PlaceDone}},
	{"what expires has no message", func(p *ward) { p.expiring("e"); p.lose("expires") }, "no_record", map[string]redisqtest.Place{"e:expires": ""}},
	{"no mover comes when it expires", func(p *ward) { p.expiring("e"); p.do("ZREM", p.key("parked"), "~expiring") }, "timer", nil},
	{"a mover comes too late when it expires", func(p *ward) {
		p.expiring("e")
		p.do("ZADD", p.key("parked"), p.now.Add(25*time.Hour).UnixMilli(), "~expiring")
	}, "timer", nil},
	{"the time when it expires is none", func(p *ward) { p.expiring("e"); p.do("ZADD", p.key("expiring"), "inf", "e:expires") }, "score", nil},
}

// expiring publishes a message that expires in a day.
func (p *ward) expiring(lane dispatcher.Lane, changes ...func(*dispatcher.Message)) {
	p.Helper()
	p.put("expires", to(lane), append(changes, func(m *dispatcher.Message) { m.ExpiresAt = p.now.Add(24 * time.Hour) })...)
	p.mustBeSound()
}
