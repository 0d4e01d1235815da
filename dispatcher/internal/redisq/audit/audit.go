// Package audit keeps in Redis who changed what.
//
// The entries are two streams under the project's own hash tag, at home: what links
// changed, and all else. So no link pushes out what others did. record.go adds entries,
// read.go lists them.
package audit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/cursor"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/script"
)

//go:embed lua/audit.lua
var auditSrc string

// auditScript is called so seldom that it is loaded when it is first needed.
var auditScript = script.New("audit", auditSrc)

const (
	// most and mostByLinks are how many entries are kept, as the contract says: some 3 MB
	// of Redis and 600 kB.
	most, mostByLinks = 10_000, 2_000
	// maxTarget and maxDetail bound the texts of an entry. The other texts are bounded
	// where they are taken; 500 of the largest entries are less than a MiB.
	maxTarget, maxDetail = 256, 1024
)

// Log is a dispatcher.Audit in Redis.
type Log struct {
	conn *conn.Client
	home string // tag of the keys
	log  *slog.Logger
	now  func() time.Time // tests set it

	sealer *cursor.Sealer

	mu      sync.Mutex // guards minutes and what is in them
	minutes map[callKind]*minuteOf
}

// New makes a Log by a connection.
func New(c *conn.Client, log *slog.Logger) *Log {
	return &Log{conn: c, home: c.Tag(conn.Home), log: log, now: time.Now, sealer: cursor.New(c), minutes: map[callKind]*minuteOf{}}
}

// write adds an entry.
func (l *Log) write(ctx context.Context, e dispatcher.AuditEntry) error {
	key, kept := keys.Audit, most
	if e.ByLink() {
		key, kept = keys.AuditLinks, mostByLinks
	}
	_, err := l.conn.RunHome(ctx, auditScript, key, kept, e.By, e.What, e.Target, e.Tenant, e.Detail)
	return err
}

// Hide is an HMAC of texts, by a random key of the project. The same texts have the same one,
// so a person that has them can see that they were meant. They can't be guessed without the key.
func (l *Log) Hide(ctx context.Context, texts ...string) (string, error) {
	key, err := l.conn.Secret(ctx, conn.MetaForgets)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// clip shortens a text, so that an entry stays small.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
