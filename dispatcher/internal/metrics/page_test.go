package metrics_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/metrics"
)

var update = flag.Bool("update", false, "write the table of deploy/docs/metrics.md")

const page = "../../../deploy/docs/metrics.md"

// full has all sources, and each figure is known.
func full(t *testing.T) string {
	t.Helper()
	one := int64(1)
	m := metrics.New()
	m.Watch(&fakeSource{stats: dispatcher.Stats{Store: dispatcher.StoreInfo{UsedBytes: &one, MaxBytes: &one, Durable: dispatcher.Yes}}})
	m.WatchConnections(fakeConnections{})
	m.WatchRequests(map[string][]int{"publish": {202}})
	m.WatchArchive(func(context.Context) (archive.Figures, error) { return archive.Figures{}, nil })
	m.WatchOutbox(fakeOutbox{up: true})
	m.WatchReloads()
	m.WatchStoreCalls([]string{"claim", "settle"})
	m.WatchLog(func() int64 { return 7 })
	m.WatchProgress(func() error { return nil })
	m.WatchClock(func() int64 { return 1 })
	m.WatchTraces(func() int64 { return 6 })
	m.WatchTorn(func() int { return 2 })
	m.Running("1.2.3")
	m.WatchBeside(metrics.Beside{
		Endpoints: func(context.Context) (int64, error) { return 3, nil },
		Jobs: func(context.Context) (map[dispatcher.JobState]int64, error) {
			return map[dispatcher.JobState]int64{dispatcher.JobRunning: 2}, nil
		},
		Unsent: func() int64 { return 5 },
	})
	return scrape(t, m)
}

func TestTheMetricsPageIsMadeFromTheMetrics(t *testing.T) {
	rows := rowsOf(full(t))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	table := regexp.MustCompile(`(?s)(\| metric \| type \| reports \|\n\| --- \| --- \| --- \|\n)(.*?)\n\n`)
	parts := table.FindSubmatchIndex(text)
	require.NotNil(t, parts, "the page has no table")
	if *update {
		text = slices.Concat(text[:parts[4]], []byte(strings.Join(rows, "\n")), text[parts[5]:])
		require.NoError(t, os.WriteFile(page, text, 0o644))
		return
	}
	require.Equal(t, strings.Join(rows, "\n"), string(text[parts[4]:parts[5]]), "run go test ./dispatcher/internal/metrics -run Page -update")
}

// rowsOf returns a line of the table for each of our metrics in a scrape. A label that is a closed
// set of few words has its values behind the text.
func rowsOf(scraped string) (rows []string) {
	series := regexp.MustCompile(`(?m)^(hookladder_[a-z_]+?)(?:_bucket|_sum|_count)?\{(.*?)\} `).FindAllStringSubmatch(scraped, -1)
	for _, m := range regexp.MustCompile(`(?m)^# HELP (hookladder_\S+) (.*)\n# TYPE \S+ (\S+)$`).FindAllStringSubmatch(scraped, -1) {
		name, text := m[1], m[2]
		values := map[string][]string{}
		var labels []string
		for _, one := range series {
			if one[1] != name && !strings.HasPrefix(one[0], name+"{") {
				continue
			}
			for _, l := range regexp.MustCompile(`(\w+)="(.*?)"`).FindAllStringSubmatch(one[2], -1) {
				if l[1] == "le" {
					continue
				}
				if values[l[1]] == nil {
					labels = append(labels, l[1])
				}
				if v := "`" + l[2] + "`"; !slices.Contains(values[l[1]], v) {
					values[l[1]] = append(values[l[1]], v)
				}
			}
		}
		full := name
		if len(labels) > 0 {
			full += "{" + strings.Join(labels, ",") + "}"
		}
		for _, label := range labels {
			if !slices.Contains([]string{"call", "version", "kind"}, label) && full != "hookladder_requests_total{call,status}" {
				text += fmt.Sprintf(" `%s`: %s.", label, strings.Join(values[label], ", "))
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", full, m[3], text))
	}
	slices.Sort(rows)
	return rows
}

func TestFiguresBesideTheQueueAreReported(t *testing.T) {
	text := full(t)
	mustContain(t, text, `build_info{version="1.2.3"} 1`, "endpoints 3", `jobs{state="running"} 2`, `jobs{state="waiting"} 0`, "notices_failed_total 5", "reload_success 1")
	require.NotContains(t, text, `jobs{state="done"}`, "these are not counted")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.NotContains(t, p.Metric, "hookladder_", p.Text)
	}

	m := metrics.New()
	m.WatchBeside(metrics.Beside{
		Endpoints: func(context.Context) (int64, error) { return 0, dispatcher.ErrUnavailable },
		Jobs:      func(context.Context) (map[dispatcher.JobState]int64, error) { return nil, dispatcher.ErrUnavailable },
		Unsent:    func() int64 { return 5 },
	})
	text = scrape(t, m)
	mustContain(t, text, "notices_failed_total 5")
	require.NotContains(t, text, "hookladder_endpoints", "0 would tell that there are none")
	require.NotContains(t, text, "hookladder_jobs")
}

func TestAReloadThatFailedIsReportedUntilOneSucceeds(t *testing.T) {
	m := metrics.New()
	r := m.WatchReloads()
	r.Reloaded(os.ErrNotExist)
	text := scrape(t, m)
	mustContain(t, text, "reload_success 0")
	require.NotContains(t, text, "hookladder_reload_timestamp_seconds 0\n", "the start read them")
	r.Reloaded(nil)
	mustContain(t, scrape(t, m), "reload_success 1")
}

func TestRoundTripsAreMeasuredByTheirKind(t *testing.T) {
	m := metrics.New()
	s := m.WatchStoreCalls([]string{"claim"})
	s.Called("claim", 0)
	s.Called("", 0)
	s.Called("doctor", 0)
	mustContain(t, scrape(t, m), `store_seconds_count{kind="claim"} 1`, `store_seconds_count{kind="other"} 2`)
}
