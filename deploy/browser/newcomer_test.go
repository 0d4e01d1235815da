package browser_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// TestANewcomerFindsTheWay is the story of somebody who starts dev, opens what it prints,
// and reads no more: see it arrive and die, find it, read why, mend it, send it again.
func TestANewcomerFindsTheWay(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	path, err := kit.FastBinary()
	require.NoError(t, err)
	dev, err := kit.Start(kit.Command{
		Name: "hookladder dev", Path: path, Args: []string{"dev", "--demo", "--speed", "20000", "--listen", "127.0.0.1:0", "--receiver", "127.0.0.1:0"},
		Env: []string{kit.NoExitSleep, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, Dir: t.TempDir(),
	})
	require.NoError(t, err)
	t.Cleanup(dev.Kill)
	printed := func(what string) string {
		line, err := dev.Line(context.Background(), what)
		require.NoError(t, err)
		return "http://" + strings.Fields(line[strings.Index(line, "http://")+len("http://"):])[0]
	}
	console, receiver := printed("  console "), printed("  receiver ")

	b := browsertest.New(t)
	b.Allow("503") // a busy machine may need more than the second that a page has, and the page tries again
	b.Try(console)
	b.WaitHas("heading", "Now")
	b.Click("link", "Tail")
	b.WaitFor("acorn-books_order-1001_1")
	b.Click("link", "Now")
	nav := b.In("navigation", "Main")
	b.Until("it died of its last rung", func() bool {
		return strings.Contains(nav.Text(), "Dead ") && len(nav.Names("link", "Dead")) == 1 && nav.Names("link", "Dead")[0] != "Dead"
	})

	b.Click("link", "Deliveries")
	b.Fill("searchbox", "Search", "order-1001")
	b.Press("Enter")
	b.WaitFor("was looked for as", "dead")
	b.In("main", "").Click("link", "dead")
	b.WaitURL("status=dead")
	b.In("table", "").Click("link", "order-1001")
	b.WaitFor("Died at", "of its ladder", "Send again")
	b.Shot("newcomer-died")

	mended := b.Another()
	mended.Open(receiver)
	mended.Allow("favicon.ico")
	mended.Click("button", "Mend it")
	mended.WaitFor("is mended")

	b.Click("link", "Dead")
	b.WaitFor("will not be attempted again")
	b.Click("checkbox", "Select all on this page")
	b.Click("button", "Preview a replay")
	b.WaitFor("Oldest")
	b.In("main", "").Click("button", "Replay")
	b.WaitFor("done", "Replay") // on a slow machine more than one message has died by now
	b.Click("link", "Deliveries")
	b.Fill("searchbox", "Search", "acorn-books_order-1001_1")
	b.Press("Enter")
	b.WaitURL("/console/messages/acorn-books_order-1001_1")
	b.WaitGone("Died at")
	b.WaitFor("Was delivered to")
	b.Shot("newcomer-delivered")

	b.Click("link", "System")
	b.Click("link", "Links for merchants")
	b.Fill("textbox", "Tenant", "acorn-books")
	b.Click("button", "Make the link")
	b.WaitFor("The link was made, and is shown here once")
	b.Shot("newcomer-link")
	require.Empty(t, b.Axe())
	link := b.JSText(`document.querySelector(".once code").textContent`)
	merchant := browsertest.New(t)
	merchant.Open(link)
	merchant.Click("button", "Open")
	merchant.WaitFor("Overview", "order-1001")
	require.NotContains(t, merchant.Text(), "birch")
	merchant.Shot("newcomer-merchant")

	b.Click("button", "Revoke")
	b.WaitFor("There is none.")
	merchant.Allow("404")
	merchant.Reload()
	merchant.WaitFor("This link opens nothing")
}
