package admin_test

import (
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/queuetest/stored"
)

// shelfDamages are of the lists that lanes and tenants have of all their deliveries.
var shelfDamages = []damage{
	{"one that its lane does not list", func(p *ward) { p.do("ZREM", p.key("of:a"), "due") }, "unlisted", map[string]stored.Place{"a:due": stored.PlaceDue}},
	{"a lane that lists nothing", func(p *ward) { p.do("DEL", p.key("of:b")) }, "unlisted", map[string]stored.Place{"b:dead": stored.PlaceDead}},
	{"one that its lane lists at another time", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "done") }, "unlisted", map[string]stored.Place{"b:done": stored.PlaceDone}},
	{"a lane lists what is gone", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "cut", 8, "nothing") }, "leftover", nil},
	{"a lane lists what another has", func(p *ward) { p.do("ZADD", p.key("of:b"), 7, "due") }, "leftover", nil},

	{"a lane that its tenant does not list", func(p *ward) { p.tenants(); p.do("DEL", p.key("tenant:"+p.hash())) }, "unlisted", map[string]stored.Place{"u_1:t1": stored.PlaceDue}},
	{"a lane of which it is not known whose it is", func(p *ward) { p.tenants(); p.do("DEL", p.key("owners")) }, "unlisted", map[string]stored.Place{"u_1:t1": stored.PlaceDue}},
	{"a lane that is said to be another's", func(p *ward) { p.tenants(); p.do("HSET", p.key("owners"), "u_1", "0123456789abcdef") }, "unlisted", nil},
	{"one that its tenant's part of a queue does not list", func(p *ward) { p.tenants(); p.do("DEL", p.key("of:q_a~"+p.hash())) }, "unlisted", map[string]stored.Place{"q_a:t1": stored.PlaceDue}},
	{"one that this lists at another time", func(p *ward) { p.tenants(); p.do("ZADD", p.key("of:q_a~"+p.hash()), 7, "t1") }, "unlisted", nil},
	{"a tenant lists a lane of which nothing is kept", func(p *ward) { p.tenants(); p.do("ZADD", p.key("tenant:"+p.hash()), 0, "u_x") }, "astray_shelf", nil},
	{"a tenant lists another's lane", func(p *ward) { p.tenants(); p.do("ZADD", p.key("tenant:"+p.hash()), 0, "a") }, "astray_shelf", nil},
	{"nobody lists the lane of a tenant that is not there", func(p *ward) { p.do("HSET", p.key("owners"), "u_x", "0123456789abcdef") }, "astray_shelf", nil},
	{"a tenant's part of a queue lists another's", func(p *ward) { p.tenants(); p.do("ZADD", p.key("of:q_a~"+p.hash()), 7, "t2") }, "astray_shelf", nil},
	{"a part of a queue is nobody's", func(p *ward) {
		p.tenants()
		p.do("ZADD", p.key("of:q_a~0123456789abcdef"), 1767323045000, "t3", 8, "nothing")
	}, "astray_shelf", nil},
	{"a lane is in use of which nothing is kept", func(p *ward) { p.do("HSET", p.key("in"), "u_x", "0 0") }, "unused", nil},
}

// tenants publishes a message of a tenant, and another one to the same queue.
func (p *ward) tenants() {
	p.Helper()
	p.put("t1", to("u_1", "q_a"), later, func(m *dispatcher.Message) { m.Tenant = "acme" })
	p.put("t2", to("q_a"), later)
	p.mustBeSound()
}

// hash names the tenant in keys.
func (p *ward) hash() string { return p.store.Conn().TenantHash("acme") }
