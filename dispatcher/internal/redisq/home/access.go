package home

import (
	_ "embed" // the scripts
	"sync/atomic"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/access_common.lua
var accessCommonSrc string

//go:embed lua/session_open.lua
var sessionOpenSrc string

//go:embed lua/session_read.lua
var sessionReadSrc string

//go:embed lua/shown_put.lua
var shownPutSrc string

//go:embed lua/shown_read.lua
var shownReadSrc string

//go:embed lua/session_renew.lua
var sessionRenewSrc string

//go:embed lua/session_clock.lua
var clockSrc string

//go:embed lua/link_unspend.lua
var linkUnspendSrc string

//go:embed lua/link_create.lua
var linkCreateSrc string

//go:embed lua/link_read.lua
var linkReadSrc string

//go:embed lua/link_list.lua
var linkListSrc string

//go:embed lua/link_revoke.lua
var linkRevokeSrc string

//go:embed lua/link_spend.lua
var linkSpendSrc string

// Access keeps the sessions and links of a project. Its scripts are called rarely, so each is loaded
// at its first call.
type Access struct {
	conn *conn.Client
	home string // tag of the keys

	keys func() dispatcher.AccessKeys // nil or empty: there are no API keys
	own  atomic.Pointer[ownSecret]

	clock, openSession, readSession, renewSession, putShown, readShown  conn.Script
	createLink, readLink, listLinks, revokeLink, spendLink, unspendLink conn.Script
}

// NewAccess returns an Access that uses a connection.
func NewAccess(c *conn.Client) *Access {
	home := func(name, src string) conn.Script { return conn.HomeScript(c.TestClock(), name, accessCommonSrc, src) }
	return &Access{
		conn: c, home: c.Tag(conn.Home),
		clock: home("read clock", clockSrc), openSession: home("open session", sessionOpenSrc),
		readSession: home("read session", sessionReadSrc), renewSession: home("renew session", sessionRenewSrc),
		putShown: home("keep page", shownPutSrc), readShown: home("read page", shownReadSrc),
		createLink: home("create link", linkCreateSrc), readLink: home("read link", linkReadSrc), listLinks: home("list links", linkListSrc),
		revokeLink: home("revoke link", linkRevokeSrc), spendLink: home("count call of link", linkSpendSrc),
		unspendLink: home("take back call of link", linkUnspendSrc),
	}
}
