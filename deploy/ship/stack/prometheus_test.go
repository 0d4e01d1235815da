package stack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/hookladder/hookladder/deploy/kit"
)

// faster is how much faster Prometheus' time runs in this test: its intervals, the duration of
// each alert, and the ranges in expressions are divided by it. Limits stay as they are.
const faster = 30

// shorter divides a duration such as 5m.
func shorter(t testing.TB, text string) string {
	t.Helper()
	d, err := model.ParseDuration(text)
	require.NoError(t, err)
	return (d / faster).String()
}

// afterGrace calls f when a service would be killed.
func afterGrace(s types.ServiceConfig, f func()) *time.Timer {
	return time.AfterFunc(time.Duration(*s.StopGracePeriod), f)
}

// prometheus starts Prometheus with the files that compose.yaml mounts, and less time.
func (s *topology) prometheus() {
	s.t.Helper()
	const folder = "/etc/prometheus/"
	rules := quickRules(s.t, mustReadFile(s.t, s.path("prometheus", folder+"rules.yaml")))
	file := mustReadFile(s.t, s.path("prometheus", folder+"prometheus.yml"))
	s.replaced("prometheus", "rules.yaml", rules)
	s.replaced("prometheus", "prometheus.yml", s.local("prometheus", quickConfig(s.t, file)))
	args := append(s.command("prometheus", 0), "--web.listen-address="+s.at("prometheus:9090"))
	s.start("prometheus", program(s.t, "prometheus"), args...)
}

// quickConfig divides the intervals of prometheus.yml.
func quickConfig(t testing.TB, text string) string {
	t.Helper()
	var config map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &config))
	global := config["global"].(map[string]any)
	for name, value := range global {
		global[name] = shorter(t, value.(string))
	}
	out, err := yaml.Marshal(config)
	require.NoError(t, err)
	return string(out)
}

// quickRules divides the duration of each alert, and the ranges in its expression.
func quickRules(t testing.TB, text string) string {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []map[string]any
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &file))
	for _, g := range file.Groups {
		for _, rule := range g.Rules {
			expr, err := parse(rule["expr"].(string))
			require.NoError(t, err)
			rule["expr"] = scaled(expr, faster)
			rule["for"] = shorter(t, rule["for"].(string))
		}
	}
	out, err := yaml.Marshal(file)
	require.NoError(t, err)
	return string(out)
}

func TestTheTestsTimeRunsFaster(t *testing.T) {
	t.Parallel()
	rules := quickRules(t, mustRead(t, "prometheus", "rules.yaml"))
	require.Regexp(t, `alert: HookladderLate\n(.*\n){3}.*seconds_bucket\[10s\]\)\)\) > 60\n +for: 20s\n`, rules)
	require.NotContains(t, rules, "[5m]")
	require.Contains(t, quickConfig(t, mustRead(t, "prometheus", "prometheus.yml")), "scrape_interval: 500ms")
}

// asked calls Prometheus' API.
func (s *topology) asked(path string, query url.Values, into any) error {
	res, err := http.Get("http://" + s.at("prometheus:9090") + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, res.Status, body)
	}
	return json.Unmarshal(body, &struct{ Data any }{into})
}

// query evaluates an expression. It returns the numbers of its series, and how many have none: a
// quantile of nothing.
func (s *topology) query(expr string) (values []float64, without int, err error) {
	var data struct {
		Result []struct{ Value model.SamplePair }
	}
	if err := s.asked("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, 0, err
	}
	for _, r := range data.Result {
		if v := float64(r.Value.Value); math.IsNaN(v) {
			without++
		} else {
			values = append(values, v)
		}
	}
	return values, without, nil
}

// history are the changes of alerts, as Prometheus reports them.
type history struct {
	mu    sync.Mutex // guards what follows
	begun time.Time
	state map[string]string // of each alert that is active
	fired map[string]bool
	lines []string
}

func (h *history) note(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.write(line)
}

func (h *history) write(line string) {
	h.lines = append(h.lines, fmt.Sprintf("%7.1fs  %s", time.Since(h.begun).Seconds(), line))
}

// update compares the states of all active alerts with those before.
func (h *history) update(now map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, state := range now {
		if h.state[name] != state {
			h.write("          " + name + " is " + state)
		}
		if state == "firing" {
			h.fired[name] = true
		}
	}
	for name, state := range h.state {
		if now[name] == "" && state == "firing" {
			h.write("          " + name + " is resolved")
		}
	}
	h.state = now
}

func (h *history) of(alert string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state[alert]
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

// watch records the alerts until the test ends.
func (s *topology) watch() *history {
	h := &history{begun: time.Now(), state: map[string]string{}, fired: map[string]bool{}}
	var watching sync.WaitGroup
	ctx := s.t.Context() // it ends before cleanups run
	watching.Go(func() {
		for kit.Rest(ctx, 100*time.Millisecond) {
			var data struct {
				Alerts []struct {
					Labels map[string]string
					State  string
				}
			}
			if err := s.asked("/api/v1/alerts", nil, &data); err != nil {
				continue
			}
			now := map[string]string{}
			for _, a := range data.Alerts {
				if name := a.Labels["alertname"]; now[name] != "firing" {
					now[name] = a.State
				}
			}
			h.update(now)
		}
	})
	s.t.Cleanup(watching.Wait)
	return h
}

// exposed are the names of the metrics that a dispatcher exports now.
func (s *topology) exposed() map[string]bool {
	s.t.Helper()
	names := map[string]bool{}
	for _, name := range dispatchers(s.project) {
		res, err := http.Get("http://" + s.at(name+setting(s.project.Services[name], "METRICS_LISTEN")) + "/metrics")
		require.NoError(s.t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(s.t, err)
		require.NoError(s.t, res.Body.Close())
		for line := range strings.Lines(string(body)) {
			if i := strings.IndexAny(line, "{ "); i > 0 && line[0] != '#' {
				names[line[:i]] = true
			}
		}
	}
	return names
}
