package home

import (
	"embed"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

//go:embed lua/*.lua
var files embed.FS

var lua = conn.Texts(files)

// The scripts are called so rarely that each is loaded at its first call.
var (
	clockScript        = accessScript("read clock", "session_clock")
	openSessionScript  = accessScript("open session", "session_open")
	readSessionScript  = accessScript("read session", "session_read")
	renewSessionScript = accessScript("renew session", "session_renew")
	putShownScript     = accessScript("keep page", "shown_put")
	readShownScript    = accessScript("read page", "shown_read")
	createLinkScript   = accessScript("create link", "link_create")
	readLinkScript     = accessScript("read link", "link_read")
	listLinksScript    = accessScript("list links", "link_list")
	revokeLinkScript   = accessScript("revoke link", "link_revoke")
	spendLinkScript    = accessScript("count call of link", "link_spend")
	unspendLinkScript  = accessScript("take back call of link", "link_unspend")

	createEndpointScript   = endpointScript("create endpoint", "endpoint_create")
	changeEndpointScript   = endpointScript("change endpoint", "endpoint_change")
	deleteEndpointScript   = endpointScript("delete endpoint", "endpoint_delete")
	endpointVersionsScript = endpointScript("read versions of endpoints", "endpoint_versions")

	auditScript  = conn.NewScript("audit", lua("audit"))
	healthScript = conn.NewScript("add health", lua("health"))
)

func accessScript(name, file string) conn.Script {
	return conn.NewScript(name, lua("access_common"), lua(file))
}

func endpointScript(name, file string) conn.Script {
	return conn.PrunedScript(name, lua("endpoint_common"), lua(file))
}
