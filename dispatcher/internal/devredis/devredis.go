// Package devredis runs a Redis inside the process, for trying things out: it
// needs nothing else, and forgets everything when the process ends.
package devredis

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Redis is one that runs, until Close.
type Redis struct {
	mini     *miniredis.Miniredis
	password string
}

// Start runs a Redis on a free port of the loopback. It generates a password for this run,
// because others on the machine can reach the port too.
func Start() (*Redis, error) {
	r := &Redis{mini: miniredis.NewMiniRedis(), password: rand.Text()}
	r.mini.RequireAuth(r.password)
	if err := r.mini.Start(); err != nil {
		return nil, fmt.Errorf("start redis in memory: %w", err)
	}
	return r, nil
}

// URL is how to connect, password included.
func (r *Redis) URL() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", r.password), Host: r.mini.Addr()}
	return u.String()
}

// Close ends it, and with it all it held.
func (r *Redis) Close() { r.mini.Close() }

// SetTime sets what its clock says, and stops it there: for tests.
func (r *Redis) SetTime(now time.Time) { r.mini.SetTime(now) }
