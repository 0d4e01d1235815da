package conn

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Fields of :meta.
const (
	metaPartitions  = "partitions"
	metaSchema      = "schema"
	metaID          = "id"          // random, of the project; prefix of every published message
	metaRepartition = "repartition" // "<from> <to> <phase>" while a repartition runs
	metaArchive     = "archive"     // 1: the project has an archive, so all instances log what they accept
	metaEpochs      = "epochs"      // 1: all partitions have epochs
	metaEmptied     = "emptied"     // the id of home's lost data; with : and a partition, the epoch of its lost data
	metaSettled     = "settled"     // a random text, which changes after each loss that was restored or given up

	// The random keys of the project in hex; see Secret.
	MetaCursors = "cursors" // encrypts the cursors of lists
	MetaLocal   = "local"   // binds links and sessions to this project, with the API keys
	MetaForgets = "forgets" // hashes forgotten names in the audit log
	metaIndex   = "index"   // hashes tenants and subjects in the names of keys
)

// Meta is the content of :meta, what all instances of a project must agree on. Only this file reads
// and writes the hash.
type Meta struct {
	Exists  bool                // there is such a project
	Schema  string              // the layout of the keys; empty: not written yet
	ID      string              // of the project; empty: it has none
	Archive bool                // the project has an archive
	Loss    *dispatcher.Emptied // data that were lost, and neither restored nor given up; nil: none

	partitions string
	mark       string
	epochs     bool
	settled    string
	secrets    map[string]string // the random keys, by field
}

// ParseMeta returns the content of the hash.
func ParseMeta(fields map[string]string) Meta {
	m := Meta{Exists: len(fields) > 0, secrets: map[string]string{}}
	var loss dispatcher.Emptied
	for field, text := range fields {
		switch field {
		case metaPartitions:
			m.partitions = text
		case metaSchema:
			m.Schema = text
		case metaID:
			m.ID = text
		case metaRepartition:
			m.mark = text
		case metaArchive:
			m.Archive = text != ""
		case metaEpochs:
			m.epochs = text != ""
		case metaEmptied:
			loss.Home = true
		case metaSettled:
			m.settled = text
		case MetaCursors, MetaLocal, MetaForgets, metaIndex:
			m.secrets[field] = text
		default:
			if of, ok := strings.CutPrefix(field, metaEmptied+":"); ok {
				if n, err := strconv.Atoi(of); err == nil && n >= 0 {
					loss.Partitions = append(loss.Partitions, n)
				}
			}
		}
	}
	if loss.Home || len(loss.Partitions) > 0 {
		slices.Sort(loss.Partitions)
		loss.Archived = m.Archive
		m.Loss = &loss
	}
	return m
}

func (m Meta) lostHome() bool { return m.Loss != nil && m.Loss.Home }

// Partitions returns the number of partitions.
func (m Meta) Partitions() (int, error) {
	n, err := strconv.Atoi(m.partitions)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s of the project says %q partitions", keys.Meta, m.partitions)
	}
	return n, nil
}

// Mark returns the progress of a repartition that has not ended. ok is false if there is none.
func (m Meta) Mark() (mark Mark, ok bool, err error) {
	if m.mark == "" {
		return Mark{}, false, nil
	}
	mark, err = parseMark(m.mark)
	return mark, true, err
}

// ReadMeta reads :meta.
func (c *Client) ReadMeta(ctx context.Context) (Meta, error) {
	var have *redis.MapStringStringCmd
	err := c.At(ctx, "read "+c.home+keys.Meta, Home, func(p redis.Pipeliner) { have = c.QueueMeta(ctx, p) })
	return ParseMeta(Value(have)), err
}

// QueueMeta queues the query for :meta, beside other commands on home. ParseMeta reads its reply.
func (c *Client) QueueMeta(ctx context.Context, p redis.Pipeliner) *redis.MapStringStringCmd {
	return p.HGetAll(ctx, c.home+keys.Meta)
}

var metaScript = NewScript("meta", part("meta"))

// metaChange is a change of :meta.
type metaChange struct {
	fields []any    // names, each with its value
	over   bool     // fields that are there are written over
	gone   []string // fields that are removed
	full   bool     // it must succeed even if memory is full
	id     string   // the id that home has unless its data were lost, which a full change records; empty: not compared
}

// writeMeta changes :meta. A change that must succeed even if memory is full is a script, in one step.
// Any other is a list of plain commands, in order: Redis refuses them if memory is full, and each is
// kept by itself in its file. Redis 7.0 skips transactions, as the writes of a script are, when it reads
// the file, if the user default may not run them.
func (c *Client) writeMeta(ctx context.Context, m metaChange) error {
	key := c.home + keys.Meta
	if !m.full {
		return c.At(ctx, "write "+key, Home, func(p redis.Pipeliner) {
			for i := 0; i < len(m.fields); i += 2 {
				field := m.fields[i].(string)
				if m.over {
					p.HSet(ctx, key, field, m.fields[i+1])
				} else {
					p.HSetNX(ctx, key, field, m.fields[i+1])
				}
			}
			if len(m.gone) > 0 {
				p.HDel(ctx, key, m.gone...)
			}
		})
	}
	args := append([]any{Flag(m.over), m.id, len(m.fields) / 2}, m.fields...)
	for _, field := range m.gone {
		args = append(args, field)
	}
	var done *redis.Cmd
	err := c.At(ctx, "write "+key, Home, func(p redis.Pipeliner) { done = p.Eval(ctx, metaScript.Text(), []string{c.home}, args...) })
	if err == nil {
		err = Failed("write "+key, done.Err())
	}
	return err
}

var identifyScript = NewScript("identify", part("identify"))

// keepRandom stores a random text in a field of :meta, even if memory is full. It returns
// the text of the instance that was first.
func (c *Client) keepRandom(ctx context.Context, field, text string) (string, error) {
	var made *redis.Cmd
	err := c.At(ctx, "identify", Home, func(p redis.Pipeliner) {
		made = p.Eval(ctx, identifyScript.Text(), []string{c.home}, keys.Meta, field, text)
	})
	if err != nil {
		return "", err
	}
	kept, err := made.Text()
	if err != nil {
		return "", Failed("identify", err)
	}
	return kept, nil
}

// SetMark records the progress of a repartition.
func (c *Client) SetMark(ctx context.Context, m Mark) error {
	return c.writeMeta(ctx, metaChange{fields: []any{metaRepartition, m.String()}, over: true})
}

// RemoveMark ends a repartition that has changed nothing.
func (c *Client) RemoveMark(ctx context.Context) error {
	return c.writeMeta(ctx, metaChange{gone: []string{metaRepartition}})
}

// EndMark ends a repartition: instances start with the new partitions. The mark goes last.
func (c *Client) EndMark(ctx context.Context, partitions int) error {
	return c.writeMeta(ctx, metaChange{fields: []any{metaPartitions, partitions}, over: true, gone: []string{metaRepartition}})
}

// BeginArchive records that the project has an archive, even if memory is full: it is full until the
// first data are archived.
func (c *Client) BeginArchive(ctx context.Context) error {
	meta, err := c.ReadMeta(ctx)
	if err == nil && !meta.Archive {
		err = c.writeMeta(ctx, metaChange{fields: []any{metaArchive, 1}, over: true, full: true})
	}
	if err == nil {
		c.SetArchives(true)
	}
	return err
}

// EndArchive records that the project has no archive.
func (c *Client) EndArchive(ctx context.Context) error {
	return c.writeMeta(ctx, metaChange{gone: []string{metaArchive}})
}

// Mark is the progress of a repartition.
type Mark struct {
	From, To int
	Phase    Phase
}

// Phase is a part of a repartition. Each may be repeated, but not after the next one has
// begun.
type Phase int

// The phases, in order.
const (
	PhaseBegin Phase = iota // nothing has changed yet
	PhaseIDs                // known ids are copied to the partitions that may need them
	PhaseMove               // the data of lanes are moved
	PhaseCount              // counts are written again, and leftovers removed
)

// Phases are their names.
var Phases = [...]string{"begin", "ids", "move", "count"}

// String returns the name of the phase.
func (p Phase) String() string { return Phases[p] }

// String returns the text of a mark.
func (m Mark) String() string { return fmt.Sprintf("%d %d %s", m.From, m.To, m.Phase) }

// parseMark parses the text of a mark.
func parseMark(text string) (Mark, error) {
	var m Mark
	var word string
	if _, err := fmt.Sscanf(text, "%d %d %s", &m.From, &m.To, &word); err == nil && m.From > 0 && m.To > 0 {
		for p, name := range Phases {
			if name == word {
				m.Phase = Phase(p)
				return m, nil
			}
		}
	}
	return m, fmt.Errorf("its mark of a repartition is %q, which this version does not know", text)
}

// underWay returns an error while a repartition has not ended, because some deliveries
// are in partitions that no instance would poll.
func underWay(meta Meta) error {
	m, marked, err := meta.Mark()
	if err != nil || !marked {
		return err
	}
	if m.Phase == PhaseBegin {
		return fmt.Errorf("a repartition from %d to %d partitions was begun, and moved nothing yet: wait for it, run hookladder repartition --to %d again, or give it up with --to %d",
			m.From, m.To, m.To, m.From)
	}
	return fmt.Errorf("a repartition from %d to %d partitions has not ended: run hookladder repartition --to %d again", m.From, m.To, m.To)
}
