package conn

import (
	"context"
	"crypto/rand"
	_ "embed" // the script
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// Pub/sub has no databases, so two deployments with the same PROJECT in different
// databases publish on the same channels. A hint of one would mislead the other. So each
// project has a random id in :meta. It is the prefix of every published message, and
// messages with another id are ignored.

//go:embed lua/identify.lua
var identifySrc string

var identifyScript = NewScript("identify", identifySrc)

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
func (c *Client) identify(ctx context.Context, meta map[string]string) error {
	id := meta[MetaID]
	if id == "" && meta[metaEpochs] != "" {
		if err := c.writeMeta(ctx, []any{metaEmptied, unknownEpoch}, false); err != nil {
			return err
		}
		meta[metaEmptied] = unknownEpoch
		c.division.loss.Store(lossOf(meta))
	}
	if id == "" {
		var err error
		if id, err = c.KeepRandom(ctx, MetaID, newID()); err != nil {
			return err
		}
	}
	if !c.TakeID(id) {
		return fmt.Errorf("%s says %q as the project's id, which must be 1 to 32 hex digits", c.home+keys.Meta, id)
	}
	return nil
}

// KeepRandom stores a random text in a field of :meta, even if memory is full. It returns
// the text of the instance that was first.
func (c *Client) KeepRandom(ctx context.Context, field, text string) (string, error) {
	var made *redis.Cmd
	err := c.At(ctx, "identify", Home, func(p redis.Pipeliner) {
		made = p.Eval(ctx, identifyScript.Text, []string{c.home}, keys.Meta, field, text)
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

// Ours removes the project's id from a published message, and reports whether the message
// is from this project.
func (c *Client) Ours(text string) (rest string, ours bool) {
	id, rest, _ := strings.Cut(text, " ")
	return rest, id == c.ID()
}
