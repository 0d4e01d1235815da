package embedded

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// InMemory is a Redis in memory that runs until Close.
type InMemory struct {
	mini     *miniredis.Miniredis
	password string
}

// StartInMemory runs a Redis in memory on a free port of the loopback. It generates a password for this run,
// because others on the machine can reach the port too.
func StartInMemory() (*InMemory, error) {
	r := &InMemory{mini: miniredis.NewMiniRedis(), password: rand.Text()}
	r.mini.RequireAuth(r.password)
	if err := r.mini.Start(); err != nil {
		return nil, fmt.Errorf("start redis in memory: %w", err)
	}
	return r, nil
}

// URL is how to connect, password included.
func (r *InMemory) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", r.password), Host: r.mini.Addr()}
	return u.String()
}

// Close ends it, and with it all it held.
func (r *InMemory) Close() { r.mini.Close() }

// SetTime sets what its clock says, and stops it there: for tests.
func (r *InMemory) SetTime(now time.Time) { r.mini.SetTime(now) }
