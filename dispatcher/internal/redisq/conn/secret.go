package conn

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

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
