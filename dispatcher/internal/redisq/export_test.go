package redisq

import (
	"context"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/buried"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

// Internals that the tests of this package use.
var (
	CommonSrc   = script.Common
	ParseHint   = parseHint
	ParseChange = parseChange
	Turn        = float64(keys.Turn)
)

// Codes are the letters of the verdicts in settle.lua.
var Codes = verdicts

// ParseCursor reads a cursor and writes it again.
func ParseCursor(text string) (string, error) {
	c, err := readCursor(text)
	return c.text(), err
}

// Stall makes a call that is not answered, while others are.
func (s *Store) Stall(ctx context.Context) error {
	return s.conn.At(ctx, "stall", conn.Home, func(p redis.Pipeliner) { p.Do(ctx, "blpop", s.home()+":nothing", 0) })
}

// Doze makes a store's last beat older, as after a sleep.
func (s *Store) Doze(d time.Duration) { s.conn.Beaten(time.Now().Add(-d)) }

// NoteTakeover makes a store believe that another node took over.
func (s *Store) NoteTakeover() { s.conn.NoteTakeover() }

// ScriptTexts are the texts of all scripts by their names.
func ScriptTexts() map[string]string {
	texts := map[string]string{}
	var add func(v reflect.Value)
	add = func(v reflect.Value) {
		for i := range v.NumField() {
			if f := v.Field(i); f.Type() == reflect.TypeFor[script.Script]() {
				texts[f.FieldByName("Name").String()] = f.FieldByName("Text").String()
			} else {
				add(f)
			}
		}
	}
	add(reflect.ValueOf(newScripts(false)))
	return texts
}

// Readers are the turns in which bodies are read.
type Readers = readers

// Enter waits for a turn to read so many bytes from a node.
func (r *readers) Enter(ctx context.Context, node string, size int64) (leave func(), err error) {
	return r.of(node).enter(ctx, size)
}

// LookAnew makes Stats read all lanes each time, to the end, however long that
// takes. So a slow machine changes no answer.
func (s *Store) LookAnew() { s.busy.within, s.busy.quick = time.Hour, time.Hour }

// LookWithin bounds the time for which one call of Stats reads lanes.
func (s *Store) LookWithin(d time.Duration) { s.busy.within = d }

// AgeLooks makes the results of Stats' last look older.
func (s *Store) AgeLooks(by time.Duration) {
	s.busy.begun, s.busy.ended = s.busy.begun.Add(-by), s.busy.ended.Add(-by)
}

// Buried reads the counts of the dead, and orders at most so many groups at a time.
func (s *Store) Buried(most int) *buried.Reader {
	return &buried.Reader{Conn: s.conn, Tags: s.tags, Partition: s.partition, Sealer: s.sealer, Most: most}
}
