// Package prometheus_test checks the alerts for Prometheus with its promtool.
package prometheus_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// series are the series of a healthy instance, a sample each minute, in promtool's form:
// start+step x times.
var healthy = map[string]string{
	`hookladder_oldest_due_seconds`:                               "0x300",
	`hookladder_oldest_held_seconds`:                              "0x300",
	`hookladder_lateness_seconds_bucket{le="0.01"}`:               "0+600x300",
	`hookladder_lateness_seconds_bucket{le="3600"}`:               "0+600x300",
	`hookladder_lateness_seconds_bucket{le="+Inf"}`:               "0+600x300",
	`hookladder_store_up`:                                         "1x300",
	`hookladder_store_emptied`:                                    "0x300",
	`hookladder_store_torn_partitions`:                            "0x300",
	`hookladder_store_durable`:                                    "1x300",
	`hookladder_store_used_ratio`:                                 "0.5x300",
	`hookladder_store_seconds_bucket{kind="claim",le="0.005"}`:    "0+600x300",
	`hookladder_store_seconds_bucket{kind="claim",le="5"}`:        "0+600x300",
	`hookladder_store_seconds_bucket{kind="claim",le="+Inf"}`:     "0+600x300",
	`hookladder_dead_total{reason="exhausted"}`:                   "0+1x300",
	`hookladder_attempts_total{outcome="delivered",class="none"}`: "0+600x300",
	`hookladder_egress_up`:                                        "1x300",
	`hookladder_exhausted_total`:                                  "0x300",
	`hookladder_lanes{state="failing"}`:                           "0x300",
	`hookladder_in_flight`:                                        "10x300",
	`hookladder_permits`:                                          "1024x300",
	`hookladder_archive_up`:                                       "1x300",
	`hookladder_archive_lag_seconds`:                              "1x300",
	`hookladder_archive_dropped_total`:                            "0x300",
	`hookladder_outbox_up`:                                        "1x300",
	`hookladder_outbox_lag_seconds`:                               "1x300",
	`hookladder_outbox_rejected`:                                  "0x300",
	`hookladder_requests_total{call="publish",status="202"}`:      "0+600x300",
	`hookladder_requests_total{call="publish",status="503"}`:      "0x300",
	`hookladder_request_seconds_bucket{call="publish",le="0.01"}`: "0+600x300",
	`hookladder_request_seconds_bucket{call="publish",le="5"}`:    "0+600x300",
	`hookladder_request_seconds_bucket{call="publish",le="+Inf"}`: "0+600x300",
	`hookladder_reload_success`:                                   "1x300",
	`hookladder_build_info{version="1.0.0"}`:                      "1x300",
	`hookladder_notices_failed_total`:                             "0x300",
	`hookladder_stuck`:                                            "0x300",
	`hookladder_log_dropped_total`:                                "0x300",
	`hookladder_store_clock_jumps_total`:                          "0x300",
}

// gone is a series that ends.
const gone = "_x300"

// sick has the series that replace healthy ones, so that an alert fires.
var sick = map[string]map[string]string{
	"HookladderOldestDue":          {`hookladder_oldest_due_seconds`: "0+60x300"},
	"HookladderFiguresAbsent":      {`hookladder_oldest_due_seconds`: gone},
	"HookladderLate":               {`hookladder_lateness_seconds_bucket{le="0.01"}`: "0+300x300"},
	"HookladderStoreDown":          {`hookladder_store_up`: "0x300"},
	"HookladderStoreEmptied":       {`hookladder_store_emptied`: "1x300"},
	"HookladderStoreTorn":          {`hookladder_store_torn_partitions`: "1x300"},
	"HookladderNotDurable":         {`hookladder_store_durable`: "0x300"},
	"HookladderStoreFull":          {`hookladder_store_used_ratio`: "0.9x300"},
	"HookladderStoreSlow":          {`hookladder_store_seconds_bucket{kind="claim",le="0.005"}`: "0+300x300"},
	"HookladderDeaths":             {`hookladder_dead_total{reason="exhausted"}`: "0+60x300"},
	"HookladderEgressDown":         {`hookladder_egress_up`: "0x300"},
	"HookladderExhausted":          {`hookladder_exhausted_total`: "0+1x300"},
	"HookladderDestinationFailing": {`hookladder_lanes{state="failing"}`: "1x300"},
	"HookladderHeldLong":           {`hookladder_oldest_held_seconds`: "300000+60x300"},
	"HookladderPermitsExhausted":   {`hookladder_in_flight`: "1000x300"},
	"HookladderArchiveDown":        {`hookladder_archive_up`: "0x300"},
	"HookladderArchiveLag":         {`hookladder_archive_lag_seconds`: "0+60x300"},
	"HookladderArchiveDropped":     {`hookladder_archive_dropped_total`: "0+1x300"},
	"HookladderOutboxDown":         {`hookladder_outbox_up`: "0x300"},
	"HookladderOutboxLag":          {`hookladder_outbox_lag_seconds`: "0+60x300"},
	"HookladderOutboxRejected":     {`hookladder_outbox_rejected`: "1x300"},
	"HookladderAPIErrors":          {`hookladder_requests_total{call="publish",status="503"}`: "0+60x300"},
	"HookladderPublishSlow":        {`hookladder_request_seconds_bucket{call="publish",le="0.01"}`: "0+300x300"},
	"HookladderReloadFailed":       {`hookladder_reload_success`: "0x300"},
	"HookladderMixedVersions":      {`hookladder_build_info{version="1.1.0"}`: "1x300"},
	"HookladderNoticesLost":        {`hookladder_notices_failed_total`: "0+1x300"},
	"HookladderStuck":              {`hookladder_stuck`: "1x300"},
	"HookladderClockJumped":        {`hookladder_store_clock_jumps_total`: "0+1x300"},
	"HookladderLogDropped":         {`hookladder_log_dropped_total`: "0+1x300"},
}

// alert is an alert of the rules.
type alert struct{ name, expr, runbook string }

func alerts(t *testing.T) (list []alert) {
	t.Helper()
	text, err := os.ReadFile("rules.yaml")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`- alert: (\w+)\n +expr: '(.*)'\n(?:.*\n)*? +runbook_url: (\S+)`).FindAllStringSubmatch(string(text), -1) {
		list = append(list, alert{m[1], m[2], m[3]})
	}
	require.Len(t, list, strings.Count(string(text), "- alert:"))
	return list
}

func run(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestPrometheusAcceptsTheRules(t *testing.T) {
	run(t, "check", "rules", "rules.yaml")
}

// Each alert fires for its own fault, no other alert does, and none fires in a healthy hour.
func TestEachAlertFiresForItsOwnFault(t *testing.T) {
	rules, err := filepath.Abs("rules.yaml")
	require.NoError(t, err)
	var file strings.Builder
	fmt.Fprintf(&file, "rule_files: [%q]\nevaluation_interval: 5m\ntests:\n", rules) // each minute would take five times as long
	write := func(name string, changed map[string]string) {
		fmt.Fprintf(&file, "  - name: %s\n    interval: 1m\n    input_series:\n", name)
		all := map[string]string{}
		for _, from := range []map[string]string{healthy, changed} {
			for series, values := range from {
				all[series] = values
			}
		}
		for series, values := range all {
			metric, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
			fmt.Fprintf(&file, "      - {series: '%s{%s}', values: '%s'}\n", metric, strings.Join(append([]string{`job="hookladder",instance="one"`}, labels), ","), values)
		}
		file.WriteString("    promql_expr_test:\n      - expr: count by (alertname) (ALERTS{alertstate=\"firing\"})\n        eval_time: 2h\n        exp_samples:")
		if name == "healthy" {
			file.WriteString(" []\n")
			return
		}
		fmt.Fprintf(&file, "\n          - {labels: '{alertname=\"%s\"}', value: 1}\n", name)
	}
	write("healthy", nil)
	for _, a := range alerts(t) {
		require.NotEmpty(t, sick[a.name], "%s has no test", a.name)
		write(a.name, sick[a.name])
	}
	require.Len(t, sick, len(alerts(t)), "a test is left of an alert that is gone")
	path := filepath.Join(t.TempDir(), "tests.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))
	run(t, "test", "rules", path)
}

// A renamed metric must not silence its alert, and a runbook must be there at night.
func TestTheRulesNameMetricsLabelsAndAnchorsThatExist(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	labels := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(hookladder_[a-z_]+)(?:\\{(.*?)\\})?` \\|").FindAllStringSubmatch(string(page), -1) {
		labels[m[1]] = strings.Split(m[2], ",")
	}
	require.NotEmpty(t, labels)
	metric := regexp.MustCompile(`(hookladder_[a-z_]+?)(?:_bucket)?(?:\{(.*?)\}|\b)`)
	for _, a := range alerts(t) {
		named := metric.FindAllStringSubmatch(a.expr, -1)
		require.NotEmpty(t, named, a.name)
		var known []string
		for _, m := range named {
			require.Contains(t, labels, m[1], a.name)
			known = append(known, labels[m[1]]...)
			for _, matcher := range strings.Split(m[2], ",") {
				if name, _, ok := strings.Cut(matcher, "="); ok {
					require.Contains(t, labels[m[1]], name, "%s: %s", a.name, m[1])
				}
			}
		}
		for _, by := range regexp.MustCompile(`by \((.*?)\)`).FindAllStringSubmatch(a.expr, -1) {
			for _, name := range strings.Split(by[1], ", ") {
				require.True(t, slices.Contains(append(known, "job", "instance", "le"), name), "%s: %s", a.name, name)
			}
		}
		_, anchor, _ := strings.Cut(a.runbook, "deploy/docs/metrics.md#")
		require.Equal(t, strings.ToLower(a.name), anchor)
		require.Contains(t, string(page), "\n### "+a.name+"\n", "the runbook")
	}
}
