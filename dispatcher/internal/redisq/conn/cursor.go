package conn

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// Bounds of a cursor. A place is filled up to a multiple of padding, because a length
// reveals how long a name is. A list has no place that makes a longer text than longest.
const (
	padding = 64
	longest = 2048
)

// Sealer seals cursors of a project. Those of one instance open at all others.
type Sealer struct {
	conn  *Client
	known atomic.Pointer[known]
}

// known is the key of a project's data, by their id: data that were lost take it with
// them.
type known struct {
	id   string
	at   time.Time // when it was read
	aead cipher.AEAD
}

// again is how long a key is not read anew because a cursor does not open. Anybody may send
// wrong ones.
const again = time.Second

// Cursors returns the Sealer of all lists.
func (c *Client) Cursors() *Sealer { return &c.cursors }

// Seal seals a place: a value that JSON can write. list is a dispatcher.ListName.
func (s *Sealer) Seal(ctx context.Context, list string, place any) (string, error) {
	plain, err := json.Marshal(place)
	if err != nil {
		return "", fmt.Errorf("seal cursor: %w", err)
	}
	k, err := s.key(ctx)
	if err != nil {
		return "", fmt.Errorf("seal cursor: %w", err)
	}
	plain = append(plain, bytes.Repeat([]byte(" "), padding-1-(len(plain)-1)%padding)...)
	nonce := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(plain)+k.aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return base64.RawURLEncoding.EncodeToString(k.aead.Seal(nonce, nonce, plain, []byte(list))), nil
}

// Open opens a cursor of a list into the place that it was made of. Without a cursor it leaves
// the place as it is: the first page. It returns dispatcher.ErrCursor for one of another list,
// of another project, or of data that were lost since.
func (s *Sealer) Open(ctx context.Context, list, text string, place any) error {
	if text == "" {
		return nil
	}
	wrong := fmt.Errorf("%w: %.64q", dispatcher.ErrCursor, text)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(text) > longest {
		return wrong
	}
	k, err := s.key(ctx)
	if err == nil && k.open(list, raw, place) != nil {
		if time.Since(k.at) < again {
			return wrong
		}
		k, err = s.read(ctx) // another instance may have made another key
	}
	switch {
	case err != nil:
		return fmt.Errorf("open cursor: %w", err)
	case k.open(list, raw, place) != nil:
		return wrong
	}
	return nil
}

// CutPage cuts a list to a page of at most limit entries. If the list has more, next is the
// cursor behind the last entry of the page, and place is the place of that entry.
func CutPage[T, P any](ctx context.Context, c *Client, name string, list []T, limit int, place func(T) P) (page []T, next string, err error) {
	if len(list) <= limit {
		return list, "", nil
	}
	page = list[:limit]
	next, err = c.cursors.Seal(ctx, name, place(page[limit-1]))
	return page, next, err
}

// open opens a cursor with this key.
func (k *known) open(list string, raw []byte, place any) error {
	size := k.aead.NonceSize()
	if len(raw) < size {
		return dispatcher.ErrCursor
	}
	plain, err := k.aead.Open(nil, raw[:size], raw[size:], []byte(list))
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, place)
}

// key is the project's key.
func (s *Sealer) key(ctx context.Context) (*known, error) {
	if k := s.known.Load(); k != nil && k.id == s.conn.ID() {
		return k, nil
	}
	return s.read(ctx)
}

// read reads the project's key, and makes one if there is none.
func (s *Sealer) read(ctx context.Context) (*known, error) {
	k := &known{id: s.conn.ID(), at: time.Now()}
	raw, err := s.conn.Secret(ctx, MetaCursors)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(raw)
	if err == nil {
		k.aead, err = cipher.NewGCM(block)
	}
	if err == nil {
		s.known.Store(k)
	}
	return k, err
}
