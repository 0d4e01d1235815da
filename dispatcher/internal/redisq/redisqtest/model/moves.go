package model

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// Words of a table of moves that are not places or scripts.
const (
	nowhere   = redisqtest.Place("-") // before a delivery is made, and after it is forgotten
	anyScript = "any"
)

// Moves are the moves that a delivery may make from place to place. Each also
// records whether it was made.
type Moves struct {
	mu   sync.Mutex
	rows []*moveRow
}

type moveRow struct {
	move
	outside bool // the model does not call this script
	made    bool
}

// move is one change of a delivery's place by a script.
type move struct {
	from, to redisqtest.Place
	script   string
}

func (m move) String() string { return fmt.Sprintf("%s to %s by %s", m.from, m.to, m.script) }

// MustParseMoves reads the table of moves in the header of a Lua file. A row
// has the place before, the place after, the script, the condition and the line
// in the log. Two spaces separate them. A * after a script means that the model
// does not call it.
func MustParseMoves(t testing.TB, text string) *Moves {
	t.Helper()
	m := &Moves{}
	places := []redisqtest.Place{nowhere, redisqtest.PlaceDue, redisqtest.PlaceReady, redisqtest.PlaceLeased, redisqtest.PlaceTaken, redisqtest.PlaceBehind, redisqtest.PlaceDone, redisqtest.PlaceDead, redisqtest.PlaceCancelled}
	for _, row := range regexp.MustCompile(`(?m)^--   (\S+) +(\S+) +([a-z_]+)(\*?)  +(\S.*?)  +(\S.*)$`).FindAllStringSubmatch(text, -1) {
		r := &moveRow{move: move{redisqtest.Place(row[1]), redisqtest.Place(row[2]), row[3]}, outside: row[4] != ""}
		if row[1] == "from" {
			continue
		}
		require.Contains(t, places, r.from, row[0])
		require.Contains(t, places, r.to, row[0])
		require.Nil(t, m.find(r.move), "%s is there twice", r.move)
		m.rows = append(m.rows, r)
	}
	require.NotEmpty(t, m.rows)
	return m
}

// find returns the row of a move, or nil.
func (m *Moves) find(of move) *moveRow {
	i := slices.IndexFunc(m.rows, func(r *moveRow) bool { return r.move == of })
	if i < 0 {
		return nil
	}
	return m.rows[i]
}

// make marks a move as made and reports whether it may be made.
func (m *Moves) make(made move) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.find(made)
	if row == nil {
		made.script = anyScript
		row = m.find(made)
	}
	if row == nil || row.outside {
		return false
	}
	row.made = true
	return true
}

// missing returns the moves that no delivery has made.
func (m *Moves) missing() (list []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		if !r.made && !r.outside {
			list = append(list, r.String())
		}
	}
	return list
}

// RunScenes plays scenes that together make each move of the table.
func RunScenes(t *testing.T, open redisqtest.FixtureFunc, moves *Moves) {
	t.Helper()
	for _, scene := range scenes {
		m := newModel(t, open, &dice{})
		m.moves = moves
		scene(m)
		m.compare()
		m.logTrail()
	}
	require.Empty(t, moves.missing(), "moves in the table that no delivery makes")
}

// calls records the script that the model calls.
func (m *model) calls(script string) { m.script = script }

// moveTo puts a delivery into its place.
func (m *model) moveTo(id dispatcher.DeliveryID, found redisqtest.Found) {
	m.Helper()
	d := m.deliveries[id]
	before := d.Place
	if before == "" {
		before = nowhere
	}
	d.Found = found
	if !found.Place.Waits() {
		d.unopened = 0
	}
	m.moved(id, before, found.Place)
}

// moved checks that a delivery may make a move.
func (m *model) moved(id dispatcher.DeliveryID, from, to redisqtest.Place) {
	m.Helper()
	made := move{from, to, m.script}
	require.True(m, m.moves == nil || m.moves.make(made), "%s moves from %s, which is not in the table of moves in order.lua", id, made)
}
