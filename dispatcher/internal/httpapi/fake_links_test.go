package httpapi_test

import (
	"context"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// fakeLinks keeps one link.
type fakeLinks struct {
	Token string
	Lasts time.Duration
	Made  dispatcher.Link // as it was made, and is answered
	Most  int             // links that were asked for
}

func (f *Fake) CreateLink(_ context.Context, l dispatcher.Link, lasts time.Duration) (string, dispatcher.Link, error) {
	f.called("create link")
	token := dispatcher.AccessKey{}.NewLink()
	f.Token, f.Lasts, f.Made = token, lasts, l
	l.ID, l.CreatedAt, l.ExpiresAt = dispatcher.LinkID(token), Now, Now.Add(lasts)
	return token, l, f.Err
}

func (f *Fake) Link(_ context.Context, id string) (dispatcher.Link, error) {
	if id != Link().ID {
		return dispatcher.Link{}, dispatcher.ErrNoLink
	}
	return Link(), f.Err
}

func (f *Fake) Links(_ context.Context, limit int, cursor string) ([]dispatcher.Link, string, error) {
	f.called("links")
	f.Most, f.Behind = limit, cursor
	return []dispatcher.Link{Link(), {ID: dispatcher.LinkID("y"), Tenant: "m8", By: "key:ops", CreatedAt: Now, ExpiresAt: Now}}, f.Next, f.Err
}

func (f *Fake) RevokeLink(_ context.Context, id string) error {
	f.called("revoke link")
	if id != Link().ID {
		return dispatcher.ErrNoLink
	}
	return f.Err
}
