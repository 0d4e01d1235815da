package admin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// A process of Redis hashes with a seed of its own: the cursor of another one skips a part.
func TestAWalkNeverGoesOnInAnotherProcessOfRedis(t *testing.T) {
	for name, hides := range map[string]bool{"it tells which it is": false, "a service hides that": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, "appendfsync always", "user service on nopass ~* &* +@all -info")
			p := redisqtest.NewProject(t, server, 1)
			if hides {
				p.Options.URL = strings.Replace(p.Options.URL, "redis://", "redis://service:any@", 1)
			}
			a := &archived{Project: p, store: p.Open(1)}
			a.feed = admin.NewFeed(a.store.Bare())
			require.NoError(t, a.feed.Begin(t.Context()))
			const many = 3000
			a.accept(many, 10)
			page, err := a.feed.Unfinished(t.Context(), 0, "")
			require.NoError(t, err)
			require.Len(t, page.Open, page.Messages)
			require.Less(t, len(page.Open), many)
			next, err := a.feed.Unfinished(t.Context(), 0, page.Next)
			require.NoError(t, err, "the same process")
			server.Restart()
			_, err = a.feed.Unfinished(t.Context(), 0, next.Next)
			for err != nil && err != archive.ErrServerChanged { // it is still starting
				require.ErrorIs(t, err, dispatcher.ErrUnavailable)
				_, err = a.feed.Unfinished(t.Context(), 0, next.Next)
			}
			require.ErrorIs(t, err, archive.ErrServerChanged)
			met := map[string]bool{}
			for cursor := ""; ; {
				page, err := a.feed.Unfinished(t.Context(), 0, cursor)
				require.NoError(t, err)
				for _, o := range page.Open {
					met[o.ID.Message] = true
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			require.Len(t, met, many)
		})
	}
}
