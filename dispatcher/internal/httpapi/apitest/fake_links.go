package apitest

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher/access"
)

// fakeLinks keeps one link.
type fakeLinks struct {
	Token string
	Lasts time.Duration
	Made  access.Link // as it was made, and is answered
	Most  int         // links that were asked for
}

func (f *Fake) CreateLink(_ context.Context, l access.Link, lasts time.Duration) (string, access.Link, error) {
	f.called("create link")
	token := access.Key{}.NewLink()
	f.Token, f.Lasts, f.Made = token, lasts, l
	l.ID, l.CreatedAt, l.ExpiresAt = access.LinkID(token), Now, Now.Add(lasts)
	return token, l, f.Err
}

func (f *Fake) Link(_ context.Context, id string) (access.Link, error) {
	if id != Link().ID {
		return access.Link{}, access.ErrNoLink
	}
	return Link(), f.Err
}

func (f *Fake) Links(_ context.Context, limit int, cursor string) ([]access.Link, string, error) {
	f.called("links")
	f.Most, f.Behind = limit, cursor
	return []access.Link{Link(), {ID: access.LinkID("y"), Tenant: "m8", By: "key:ops", CreatedAt: Now, ExpiresAt: Now}}, f.Next, f.Err
}

func (f *Fake) RevokeLink(_ context.Context, id string) error {
	f.called("revoke link")
	if id != Link().ID {
		return access.ErrNoLink
	}
	return f.Err
}
