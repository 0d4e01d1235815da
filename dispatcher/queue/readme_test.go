package queue_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/queue"
)

// mostProgram is the size of the program of the page without debug tables, and a tenth more.
const mostProgram = 15 << 20

// A program with a queue links few modules. Metrics, PostgreSQL or a command line are for others.
func TestAProgramWithAQueueLinksFewModules(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/hookladder/hookladder/dispatcher/queue")
	out, err := list.Output()
	require.NoError(t, err)
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	require.Equal(t, []string{
		"github.com/cespare/xxhash/v2", "github.com/go-json-experiment/json", "github.com/hashicorp/golang-lru/v2",
		"github.com/hookladder/hookladder", "github.com/oklog/ulid/v2", "github.com/redis/go-redis/v9",
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/trace", "go.uber.org/atomic", "golang.org/x/sync", "golang.org/x/sys",
	}, slices.Compact(modules))
}

// mustBuildReadme builds the program of the page about queues in a module of its own.
func mustBuildReadme(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "docs", "queues.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## In a Go program\n")
	require.True(t, ok)
	_, program, ok := strings.Cut(section, "\n```go\n")
	require.True(t, ok)
	program, _, _ = strings.Cut(program, "```")

	path, err := kit.BuildAlone(t.Context(), t.TempDir(), program)
	require.NoError(t, err)
	built, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, built.Size(), int64(mostProgram), "which new package does a program with a queue link?")
	return path
}

// TestTheProgramOfTheReadmeIsKilledAndAnotherOneFinishes kills it with work in hand.
func TestTheProgramOfTheReadmeIsKilledAndAnotherOneFinishes(t *testing.T) {
	redistest.Long(t)
	program, url := mustBuildReadme(t), redistest.Start(t).URL()
	ctx, stop := context.WithTimeout(t.Context(), 2*patience) // the build may take longer than all that follows
	defer stop()
	start := func() *kit.Process {
		p, err := kit.Start(kit.Command{Path: program, Env: append(os.Environ(), "REDIS_URL="+url)})
		require.NoError(t, err)
		t.Cleanup(p.Kill)
		return p
	}
	first, second := start(), (*kit.Process)(nil)
	_, err := first.Line(ctx, "cancel order")
	require.NoError(t, err)
	first.Kill()
	killed := time.Now()

	reader := newTestProgram(t, url, queue.Options{Project: "shop"})
	inHand := 0
	for n := range 20 {
		view, err := reader.Read(ctx, fmt.Sprint("order_", n))
		require.NoError(t, err)
		if view.Deliveries[0].Status == dispatcher.StatusInFlight {
			inHand++
		}
	}
	require.Positive(t, inHand)
	second = start()
	_, err = second.Line(ctx, "cancel order")
	require.NoError(t, err)
	t.Logf("%d were in hand, the first was begun again after %s", inHand, time.Since(killed).Round(time.Millisecond))
	for n := range 20 {
		d := reader.ends(t, fmt.Sprint("order_", n))
		require.Equal(t, dispatcher.StatusDelivered, d.Status)
		require.Empty(t, d.LastError)
	}
	require.NoError(t, second.Interrupt())
}
