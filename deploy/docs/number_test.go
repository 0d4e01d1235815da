package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/ladder"
)

// TestTheLadderOfThePagesIsTheDefault compares what the pages say of it with the code.
func TestTheLadderOfThePagesIsTheDefault(t *testing.T) {
	l := ladder.Default()
	require.Equal(t, 10, l.Len()+1)
	require.Equal(t, 25*time.Hour, l.Total().Round(time.Hour))
	require.Equal(t, 91*time.Second, l.Faster(1000).Total().Round(time.Second))
	readme, err := os.ReadFile(filepath.Join(top(t), "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), "(15s, 3m, 10m, … 15h: ten attempts in about 25 hours)")
	require.Contains(t, string(readme), "the 25 hours become 91 seconds")
	receive, err := os.ReadFile("receive.md")
	require.NoError(t, err)
	waits := strings.Split(l.String(), ",")
	last := len(waits) - 1
	require.Contains(t, string(receive), "is retried after "+strings.Join(waits[:last], ", ")+" and "+waits[last]+" |")
}
