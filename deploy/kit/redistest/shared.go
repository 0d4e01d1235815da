package redistest

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
)

// Common is the redis-server that the tests of a package have in common.
type Common struct{ url string }

// URL returns the server's address.
func (c *Common) URL() string { return c.url }

var common struct {
	mu     sync.Mutex // guards the fields below
	main   bool       // Main runs, and ends the server
	server *kit.Redis // nil until the first use
}

// Main runs the tests of a package that uses Share. It is all that its TestMain does.
func Main(m *testing.M) {
	common.main = true
	defer func() {
		if common.server != nil {
			common.server.Close()
		}
	}()
	m.Run()
}

// Share returns a redis-server that is started once for all tests of the package, because a start
// and the load of the scripts take longer than most tests. Each test has a project of its own there.
// A test that needs more of a server than its own keys starts one: for its settings, its users, its
// clients, a full memory, a restart, or all keys of a server. The server keeps no files.
func Share(t testing.TB) *Common {
	t.Helper()
	common.mu.Lock()
	defer common.mu.Unlock()
	require.True(t, common.main, "the TestMain of this package calls redistest.Main")
	if common.server == nil {
		dir, err := os.MkdirTemp("", "redistest")
		require.NoError(t, err)
		defer os.RemoveAll(dir) //nolint:errcheck // the server has read its settings and writes nothing
		common.server, err = kit.StartRedis(context.Background(), kit.RedisOptions{Dir: dir, Settings: []string{"appendonly no"}})
		require.NoError(t, err)
	}
	return &Common{url: common.server.URL()}
}
