package home

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
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

//go:embed lua/audit.lua
var auditSrc string

// auditScript is called rarely, so it is loaded at its first call.
var auditScript = conn.NewScript("audit", auditSrc)

const (
	// most and mostByLinks limit the number of entries, as documented in the contract. They take
	// some 3 MB and 600 kB of Redis.
	most, mostByLinks = 10_000, 2_000
	// maxTarget and maxDetail limit the texts of an entry. The other texts are limited when they
	// are accepted. 500 of the largest entries are less than 1 MiB.
	maxTarget, maxDetail = 256, 1024
)

// Audit is a dispatcher.Audit in Redis.
type Audit struct {
	conn *conn.Client
	home string // tag of the keys
	log  *slog.Logger
	now  func() time.Time // tests set it

	mu      sync.Mutex // guards minutes and their content
	minutes map[callKind]*minuteOf
}

// NewAudit returns an Audit that uses a connection.
func NewAudit(c *conn.Client, log *slog.Logger) *Audit {
	return &Audit{conn: c, home: c.Tag(conn.Home), log: log, now: time.Now, minutes: map[callKind]*minuteOf{}}
}

// write adds an entry.
func (l *Audit) write(ctx context.Context, e dispatcher.AuditEntry) error {
	key, kept := keys.Audit, most
	if e.ByLink() {
		key, kept = keys.AuditLinks, mostByLinks
	}
	_, err := l.conn.RunHome(ctx, auditScript, key, kept, e.By, e.What, e.Target, e.Tenant, e.Detail)
	return err
}

// Hide returns an HMAC of texts, by a random key of the project. The same texts return the same
// HMAC. So a person that has the texts can see that an entry is about them. Without the key the
// texts can't be guessed.
func (l *Audit) Hide(ctx context.Context, texts ...string) (string, error) {
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
