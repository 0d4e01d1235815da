package conn

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// An empty store in a cluster gets as few partitions as possible, because a call of a script costs as
// much for one message as for several, and a batch of messages is divided by partitions.
const (
	leastPartitions = 12
	mostPartitions  = 1024 // as of PARTITIONS
)

// firstPartitions returns the number of partitions of an empty store.
func (c *Client) firstPartitions(ctx context.Context) (int, error) {
	if c.cluster == nil {
		return 1, nil
	}
	var masters atomic.Int64
	err := c.cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error {
		masters.Add(1)
		return nil
	})
	if err != nil {
		return 0, Failed("find the masters", err)
	}
	return evenPartitions(int(masters.Load()), func(n int) (string, error) {
		master, err := c.cluster.MasterForKey(ctx, keys.Tag(c.options.Project, n))
		if err != nil {
			return "", Failed("find the masters", err)
		}
		return master.Options().Addr, nil
	})
}

// evenPartitions returns the first number of partitions with which the busiest master has at most a
// quarter more than an equal share. The hash of its name puts a partition on its master, so the
// numbers are tried.
func evenPartitions(masters int, masterOf func(partition int) (string, error)) (partitions int, err error) {
	has, most := map[string]int{}, 0
	for n := 1; n < mostPartitions; n++ {
		master, err := masterOf(n - 1)
		if err != nil {
			return 0, err
		}
		has[master]++
		most = max(most, has[master])
		if n >= leastPartitions && 4*most*masters <= 5*n {
			return n, nil
		}
	}
	return mostPartitions, nil // the more, the more even
}

// schemaVersion is the layout of the keys in this version, as in :meta. A project with
// another layout is not changed.
const schemaVersion = "6"

// Agree returns the number of partitions and stores the project's id. The first start
// fixes the number, because every lane's partition depends on it. It writes only to an
// empty store, because one whose memory is full must be opened too.
func (c *Client) Agree(ctx context.Context, wanted int) (int, error) {
	have, err := c.ReadMeta(ctx)
	if err == nil && (have.partitions == "" || have.Schema == "") {
		first := wanted
		if first == 0 {
			first, err = c.firstPartitions(ctx)
		}
		if err == nil {
			err = c.writeMeta(ctx, metaChange{fields: []any{metaPartitions, first, metaSchema, schemaVersion}})
		}
		if err == nil {
			have, err = c.ReadMeta(ctx) // another instance may have been first
		}
	}
	if err != nil {
		return 0, err
	}
	if err := c.CheckLayout(have.Schema); err != nil {
		return 0, err
	}
	if err := underWay(have); err != nil {
		return 0, err
	}
	n, err := have.Partitions()
	if err != nil {
		return 0, err
	}
	if wanted != 0 && wanted != n {
		return 0, fmt.Errorf("PARTITIONS=%d, but project %s was made with %d: unset it, or use another PROJECT", wanted, c.options.Project, n)
	}
	c.SetArchives(have.Archive)
	c.division.settled.Store(&have.settled)
	c.division.loss.Store(have.Loss)
	if err := c.identify(ctx, have); err != nil {
		return 0, err
	}
	return n, c.needIndex(ctx, have)
}

// CheckLayout returns an error for a layout of the keys that this version does not know.
func (c *Client) CheckLayout(schema string) error {
	known, _ := strconv.Atoi(schemaVersion)
	switch n, err := strconv.Atoi(schema); {
	case schema == schemaVersion:
		return nil
	case err == nil && n < known:
		return fmt.Errorf("the keys of project %s have the older layout %s, this version knows %s only: stop all older instances and use another PROJECT, "+
			"or an empty database; let the older version finish its deliveries first", c.options.Project, schema, schemaVersion)
	default:
		return fmt.Errorf("the keys of project %s have layout %q, this version knows %s only: start the newer version that made them", c.options.Project, schema, schemaVersion)
	}
}

// Pub/sub has no databases, so two deployments with the same PROJECT in different
// databases publish on the same channels. A hint of one would mislead the other. So each
// project has a random id in :meta. It is the prefix of every published message, and
// messages with another id are ignored.

// nameless is used for the id of a project without one. No subscriber receives it,
// because no instance runs without an id.
const nameless = "0"

// identities is the form of an id. Scripts rely on it.
var identities = regexp.MustCompile(`^[0-9a-f]{1,32}$`)

// ID returns the project's id. It changes while an instance runs only if Redis lost
// everything and another instance wrote to it first.
func (c *Client) ID() string {
	if id := c.id.Load(); id != nil {
		return *id
	}
	return nameless
}

// newID returns a unique id.
func newID() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// TakeID stores an id, and reports whether the text is a valid one.
func (c *Client) TakeID(id string) bool {
	if !identities.MatchString(id) {
		return false
	}
	c.id.Store(&id)
	return true
}

// identify stores the id from :meta. The first start creates it, even if memory is full. A
// project with epochs had an id, so if it has none, the data of home were lost.
func (c *Client) identify(ctx context.Context, meta Meta) error {
	id := meta.ID
	if id == "" && meta.epochs {
		if err := c.writeMeta(ctx, metaChange{fields: []any{metaEmptied, unknownEpoch}, full: true}); err != nil {
			return err
		}
		loss := dispatcher.Emptied{Home: true, Archived: meta.Archive}
		if meta.Loss != nil {
			loss.Partitions = meta.Loss.Partitions
		}
		c.division.loss.Store(&loss)
	}
	if id == "" {
		var err error
		if id, err = c.keepRandom(ctx, metaID, newID()); err != nil {
			return err
		}
	}
	if !c.TakeID(id) {
		return fmt.Errorf("%s says %q as the project's id, which must be 1 to 32 hex digits", c.home+keys.Meta, id)
	}
	return nil
}

// Ours removes the project's id from a published message, and reports whether the message
// is from this project.
func (c *Client) Ours(text string) (rest string, ours bool) {
	id, rest, _ := strings.Cut(text, " ")
	return rest, id == c.ID()
}

// secretSize is the length of a random key of the project in bytes.
const secretSize = 32

// secrets is the form of a key. Scripts rely on it.
var secrets = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Secret reads a random key of the project, a field of :meta in hex. The first instance that needs
// one creates it, even if memory is full.
func (c *Client) Secret(ctx context.Context, field string) ([]byte, error) {
	meta, err := c.ReadMeta(ctx)
	if err != nil {
		return nil, err
	}
	text := meta.secrets[field]
	if text == "" {
		if text, err = c.keepRandom(ctx, field, newSecret()); err != nil {
			return nil, err
		}
	}
	if !secrets.MatchString(text) {
		return nil, fmt.Errorf("%s of %s is not a key: remove the field, so that another one is created", field, c.home+keys.Meta)
	}
	return hex.DecodeString(text)
}

func newSecret() string {
	fresh := make([]byte, secretSize)
	_, _ = rand.Read(fresh) // never fails
	return hex.EncodeToString(fresh)
}

// TakeIndex stores the key of the index from :meta. If :meta has none, the known key
// stays.
func (c *Client) TakeIndex(meta Meta) { c.takeIndex(meta.secrets[metaIndex]) }

func (c *Client) takeIndex(text string) {
	if secrets.MatchString(text) {
		c.index.Store(&text)
	}
}

// indexKey returns the key of the index in hex, or nameless before it is known.
func (c *Client) indexKey() string {
	if text := c.index.Load(); text != nil {
		return *text
	}
	return nameless
}

// needIndex stores the key of the index, and creates it if there is none.
func (c *Client) needIndex(ctx context.Context, meta Meta) error {
	if c.TakeIndex(meta); meta.secrets[metaIndex] != "" && c.index.Load() != nil {
		return nil
	}
	key, err := c.Secret(ctx, metaIndex)
	if err == nil {
		c.takeIndex(hex.EncodeToString(key))
	}
	return err
}

// hashed returns the hash of a tenant or subject. kind separates equal texts with
// different meanings. Scripts make the same hash, as owned of tenant.lua does. It is
// SHA-1, the only hash in scripts. The project's random key comes before the text, so no
// caller can choose a text for its hash.
func (c *Client) hashed(kind byte, text string) [sha1.Size]byte {
	return sha1.Sum([]byte(c.indexKey() + string(kind) + text))
}

// Kinds of hashed texts.
const (
	hashedTenant  = 't'
	hashedSubject = 's'
)

// TenantHash returns the hash of a tenant in the names of keys.
func (c *Client) TenantHash(tenant string) string {
	sum := c.hashed(hashedTenant, tenant)
	return hex.EncodeToString(sum[:8])
}

// SubjectHash returns the 8 bytes of a subject in the index; empty without a subject.
func (c *Client) SubjectHash(subject string) string {
	if subject == "" {
		return ""
	}
	return c.tokenHash(dispatcher.SubjectToken(subject))
}

func (c *Client) tokenHash(token string) string {
	sum := c.hashed(hashedSubject, token)
	return string(sum[:8])
}

// SubjectMark returns what a record has to find its subject: the hash, and the last four digits
// if its number has them.
func (c *Client) SubjectMark(subject string) string {
	if subject == "" {
		return ""
	}
	token := dispatcher.SubjectToken(subject)
	return c.tokenHash(token) + dispatcher.LastDigits(token)
}

// knownIndex returns the key of the index for noteEmptied. It is the known key, because
// the index of other partitions uses it.
func (c *Client) knownIndex() string {
	if text := c.index.Load(); text != nil {
		return *text
	}
	return newSecret()
}
