package admin_test

import "github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"

// shelfDamages are of the lists that lanes have of all their deliveries.
var shelfDamages = []damage{
	{"one that its lane does not list", func(p *ward) { p.do("ZREM", p.key("of:a"), "due") }, "unlisted", map[string]stored.Place{"a:due": stored.PlaceDue}},
	{"a lane that lists nothing", func(p *ward) { p.do("DEL", p.key("of:b")) }, "unlisted", map[string]stored.Place{"b:dead": stored.PlaceDead}},
	{"one that its lane lists at another time", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "done") }, "unlisted", map[string]stored.Place{"b:done": stored.PlaceDone}},
	{"a lane lists what is gone", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "cut", 8, "nothing") }, "leftover", nil},
	{"a lane lists what another has", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "due") }, "leftover", nil},
}
