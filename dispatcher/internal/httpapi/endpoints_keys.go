package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi/api"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// webhookKeys serves GET /.well-known/webhook-keys. It needs no key, so it does not show whether
// an endpoint without a public key exists. It queries the store at most once a minute, and
// receivers may cache the response for that time.
func (s *endpointServer) webhookKeys(ctx context.Context, q *api.Request) (*api.Response, error) {
	f := dispatcher.PublicKeyFilter{Limit: q.Limit(), Cursor: q.Cursor()}
	if f.Cursor != "" && q.Query.Has("endpoint") {
		return nil, api.WrongField("query.endpoint", "has a page of its own: leave the cursor out")
	}
	page, err := s.publicKeys(ctx, f, q.All("endpoint"))
	if err != nil {
		return nil, err
	}
	w := wire.PublicKeyPage{Data: api.Convert(page.Keys, wirePublicKey), NextCursor: api.NextCursor(page.Next)}
	r, err := api.JSON(http.StatusOK, w)
	if err != nil {
		return nil, err
	}
	seconds := int64((page.Fresh + time.Second - 1) / time.Second)
	r.CacheControl = "public, max-age=" + strconv.FormatInt(seconds, 10)
	return r, nil
}

func wirePublicKey(k *dispatcher.PublicKey) wire.PublicKey {
	return wire.PublicKey{Endpoint: k.Endpoint, PublicKey: k.Key, Until: wire.Time{Time: k.Until}}
}

// publicKeys returns the keys of the named endpoints, or a page of all keys.
func (s *endpointServer) publicKeys(ctx context.Context, f dispatcher.PublicKeyFilter, names []string) (dispatcher.PublicKeyPage, error) {
	if len(names) <= 1 {
		f.Name = strings.Join(names, "")
		return s.Endpoints.PublicKeys(ctx, f)
	}
	var all dispatcher.PublicKeyPage
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		f.Name = name
		page, err := s.Endpoints.PublicKeys(ctx, f)
		if err != nil {
			return all, err
		}
		if i == 0 || page.Fresh < all.Fresh {
			all.Fresh = page.Fresh
		}
		all.Keys = append(all.Keys, page.Keys...)
	}
	return all, nil
}
