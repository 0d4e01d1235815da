package stack_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// The faults of this test must cause these alerts. No others may fire, except consequences.
var (
	receiverAlerts = []string{"HookladderDestinationFailing"}
	redisAlerts    = []string{"HookladderStoreDown", "HookladderAPIErrors", "HookladderFiguresAbsent"}
	// On a slow machine these may fire too.
	consequences = []string{"HookladderOutboxLag", "HookladderArchiveLag", "HookladderLate", "HookladderOldestDue", "HookladderStoreSlow", "HookladderPublishSlow"}
)

// The stack of compose.yaml loses no accepted message while a dispatcher is upgraded, the receiver
// is away, and Redis is killed. The alerts of each outage fire, and are resolved after it. Every
// panel has a figure at each time.
func TestTheStackShowsAnOutageAndItsRecovery(t *testing.T) {
	t.Parallel()
	s := newTopology(t)
	s.all()
	h := s.watch()
	s.signIn()
	l := s.startLoad()
	table := newTable(s)
	defer func() { t.Logf("\n%s\n\n%s", h, table) }()

	h.note("the load begins")
	l.more(100)
	table.fill("healthy", false)
	require.Empty(t, h.fired, "an alert fires for a healthy stack:\n%s", h)

	h.note("the receiver ends")
	s.running["receiver"].Kill()
	s.until(h, receiverAlerts, "firing")
	table.fill("no receiver", false)
	h.note("the receiver starts")
	s.receiver()
	s.upgrade(h, l) // its breaker waits meanwhile
	s.until(h, receiverAlerts, "")

	h.note("Redis is killed")
	killed := time.Now()
	s.running["redis"].Kill()
	s.until(h, redisAlerts, "firing")
	table.fill("no Redis", true)
	require.NotZero(t, l.refusals()["503"])
	h.note("Redis starts with its append-only file")
	s.redis()
	s.until(h, redisAlerts, "")
	l.more(100)
	table.fill("recovered", false)

	accepted := l.end()
	promised := l.promised(killed)
	h.note("the load ends")
	s.arrived(promised)
	s.archived(promised)
	h.note("all has arrived, and is archived")
	s.quiet(h)
	t.Logf("%d messages were accepted. All arrived, but for %d from the seconds around the kill that nothing is claimed of. Refused calls: %v",
		len(accepted), len(accepted)-len(promised), l.refusals())
	for alert := range h.fired {
		require.Contains(t, slices.Concat(receiverAlerts, redisAlerts, consequences), alert)
	}
}

// signIn signs in at the console as a browser does that opens nginx' port of this machine.
func (s *topology) signIn() {
	s.t.Helper()
	front := "http://" + s.at("nginx:80")
	form := url.Values{"key": {s.key("admin")}}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, front+"/console/sign-in", strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", front)
	res, err := http.DefaultTransport.RoundTrip(req) // it follows no redirect
	require.NoError(s.t, err)
	require.NoError(s.t, res.Body.Close())
	require.Equal(s.t, http.StatusSeeOther, res.StatusCode)
	require.NotEmpty(s.t, res.Cookies(), "it is signed in")
}

// upgrade restarts one dispatcher after the other. No call fails meanwhile.
func (s *topology) upgrade(h *history, l *traffic) {
	s.t.Helper()
	for _, name := range dispatchers(s.project) {
		h.note(name + " is upgraded")
		require.NoError(s.t, s.upgraded(name))
		l.more(20)
	}
	require.Empty(s.t, l.refusals())
}

// until waits until each of these alerts has a state.
func (s *topology) until(h *history, alerts []string, state string) {
	s.t.Helper()
	s.wait(fmt.Sprintf("%s: %q", alerts, state), func() error {
		for _, alert := range alerts {
			if now := h.of(alert); now != state {
				return fmt.Errorf("%s is %q\n%s", alert, now, h)
			}
		}
		return nil
	})
}

// quiet waits until no alert is active.
func (s *topology) quiet(h *history) {
	s.t.Helper()
	s.wait("no alert is active", func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.state) > 0 {
			return fmt.Errorf("%v", h.state)
		}
		return nil
	})
}

// table has the result of each panel at each time.
type table struct {
	s     *topology
	times []string
	rows  []*row
}

type row struct {
	panel   string
	target  target
	results []string
}

func newTable(s *topology) *table {
	b, section := &table{s: s}, ""
	for _, p := range mustReadDashboard(s.t).Panels {
		if p.Type == "row" {
			section = p.Title
		}
		for _, of := range p.Targets {
			b.rows = append(b.rows, &row{panel: section + ": " + p.Title, target: of})
		}
	}
	return b
}

// fill evaluates every panel until each has a figure. Without Redis a panel may have none if no
// dispatcher exports its metric, or if it is a quantile of attempts, of which there are none.
func (b *table) fill(when string, without bool) {
	t := b.s.t
	t.Helper()
	b.times = append(b.times, when)
	for _, r := range b.rows {
		expr, err := parse(r.target.Expr)
		require.NoError(t, err)
		used, quick := metrics(expr), scaled(expr, faster)
		result := ""
		b.s.wait(fmt.Sprintf("%s, %s: %s has a figure", when, r.panel, quick), func() error {
			values, empty, err := b.s.query(quick)
			if err != nil {
				return err
			}
			result = summary(values)
			if len(values) > 0 {
				return nil
			}
			if without && empty > 0 {
				result = "none to measure"
				return nil
			}
			if exposed := b.s.exposed(); without && slices.ContainsFunc(used, func(name string) bool { return !exposed[name] }) {
				result = "not exported"
				return nil
			}
			return errors.New("it is empty")
		})
		r.results = append(r.results, result)
	}
}

// summary is the number of series and their range.
func summary(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	least, most := fmt.Sprintf("%.3g", slices.Min(values)), fmt.Sprintf("%.3g", slices.Max(values))
	if least == most {
		return fmt.Sprintf("%d× %s", len(values), least)
	}
	return fmt.Sprintf("%d× %s…%s", len(values), least, most)
}

func (b *table) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "panel\tlegend\t%s\texpression\n", strings.Join(b.times, "\t"))
	for _, r := range b.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.panel, r.target.LegendFormat, strings.Join(r.results, "\t"), r.target.Expr)
	}
	_ = w.Flush() // a Builder takes all
	return out.String()
}
