package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/ladder"
)

// takeoverWithin is what is promised where others live and reach the store.
const takeoverWithin = 10 * time.Second

// report judges, prints, and fails the test where something may not be.
func report(t testing.TB, h *history, b *trouble, memory int64) {
	t.Helper()
	climb, err := ladder.Parse(rungs)
	require.NoError(t, err)
	var waits []time.Duration
	for n := 1; ; n++ {
		wait, ok := climb.Next(n)
		if !ok {
			break
		}
		waits = append(waits, wait)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	found := judged(h, waits)
	for _, n := range h.notes {
		if n.text == forgetful {
			b.say("%s %s: %d counts gone at %s", n.who, n.text, n.n, n.at.Format("15:04:05.000"))
		}
	}
	fmt.Fprint(t.Output(), table(found, b.counts, memory))
	if found.takeover > takeoverWithin {
		b.say("a takeover took longer than %s though nothing else was broken:\n%s", takeoverWithin, found.takeoverOf)
	}
	kinds := map[string]int{}
	for _, c := range found.complaints {
		if kinds[c.what]++; kinds[c.what] <= 5 {
			t.Error(c)
		}
	}
	if len(found.complaints) > 0 {
		t.Errorf("complaints: %v", kinds)
	}
}

// table is what a run came to.
func table(f findings, faults map[string]int, memory int64) string {
	var b strings.Builder
	row := func(name string, value any) { fmt.Fprintf(&b, "  %-42s %v\n", name, value) }
	b.WriteString("messages\n")
	row("accepted", f.accepted)
	row("refused", f.refused)
	row("unknown (their callers gave up)", f.unknown)
	b.WriteString("deliveries\n")
	row("delivered", f.delivered)
	row("dead", fmt.Sprint(f.dead, " ", f.deaths))
	row("cancelled", f.cancelled)
	row("forgotten by the store", f.forgotten)
	row("callbacks", f.arrivals)
	row("of an unknown instance", f.anonymous)
	row("events in the archive", f.archived)
	row("lines cut before they were archived", f.missing)
	b.WriteString("duplicates\n")
	for _, cause := range slices.Sorted(maps.Keys(f.duplicates)) {
		row(cause, f.duplicates[cause])
	}
	b.WriteString("complaints\n")
	kinds := map[string]int{}
	for _, c := range f.complaints {
		kinds[c.what]++
	}
	for _, kind := range allComplaints {
		row(kind, kinds[kind])
	}
	b.WriteString("longest\n")
	row("takeover", f.takeover.Round(10*time.Millisecond))
	row("takeover, with something else broken too", f.hindered.Round(10*time.Millisecond))
	row("without an acceptance, the store up", f.silence.Round(10*time.Millisecond))
	row("memory of an instance at the end", fmt.Sprint(memory>>20, " MiB"))
	b.WriteString("broken\n")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		row(kind, faults[kind])
	}
	return b.String()
}
