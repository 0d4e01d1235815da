package conn

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

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
