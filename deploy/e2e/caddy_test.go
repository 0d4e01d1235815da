package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
)

// caddyBlock is the one that deploy/README.md gives, for these addresses.
func caddyBlock(t testing.TB, listen string, addresses []string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "\n```caddyfile\n")
	require.True(t, found, "deploy/README.md has no block for Caddy")
	block, _, _ = strings.Cut(block, "\n```")
	require.Contains(t, block, "health_uri /readyz")
	servers := 0
	block = regexp.MustCompile(`10\.0\.0\.\d+:8080`).ReplaceAllStringFunc(block, func(string) string {
		servers++
		return addresses[servers-1]
	})
	require.Equal(t, len(addresses), servers)
	require.Contains(t, block, "hooks.example.com {")
	return strings.Replace(block, "hooks.example.com {", "http://"+listen+" {", 1)
}

// startCaddy serves a block without TLS, and answers its URL.
func startCaddy(t testing.TB, path, block, listen string) (address string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "Caddyfile")
	mustWrite(t, file, "{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}\n"+block+"\n")
	p, err := kit.Start(kit.Command{Name: "caddy", Path: path, Args: []string{"run", "--config", file, "--adapter", "caddyfile"}, Dir: dir, Env: []string{"HOME=" + dir}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	_, err = p.Line(t.Context(), "serving initial configuration")
	require.NoError(t, err)
	return "http://" + listen
}

// Caddy polls /readyz. Within SHUTDOWN_DELAY it notices that an instance stops, and leads no
// further call there.
func TestARollOutBehindCaddyFailsNoCall(t *testing.T) {
	t.Parallel()
	redistest.Long(t)
	path := proxy(t, "caddy")
	if path == "" {
		return
	}
	w := newWorld(t)
	f := newTrio(w, "SHUTDOWN_DELAY=5s")
	port, err := kit.FreePort()
	require.NoError(t, err)
	listen := kit.Loopback(port)
	c := f.before(startCaddy(t, path, caddyBlock(t, listen, f.addresses), listen))
	c.goOn(20)
	require.Zero(t, f.all[0].stop())
	f.all[0] = f.start(0)
	c.goOn(20)
	c.without("503")
}
