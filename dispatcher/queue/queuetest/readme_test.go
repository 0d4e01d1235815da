package queuetest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePageAboutQueuesHasTheTestOfTheShop compares them, but for their packages.
func TestThePageAboutQueuesHasTheTestOfTheShop(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "docs", "queues.md"))
	require.NoError(t, err)
	_, block, ok := strings.Cut(string(page), "<!-- run by: dispatcher/queue/queuetest/readme_test.go -->\n```go\npackage shop\n")
	require.True(t, ok)
	block, _, _ = strings.Cut(block, "```")
	file, err := os.ReadFile("shop_test.go")
	require.NoError(t, err)
	require.Equal(t, "package queuetest_test\n"+block, string(file))
}
