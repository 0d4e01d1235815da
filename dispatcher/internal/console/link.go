package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
)

// linkCookie returns the name of a link's cookie. Its value is the link's token, so that
// revoking a link ends it in all browsers at once.
func (s *server) linkCookie() string {
	if s.secure {
		return "__Secure-hookladder-link" // __Host- would send it to the console too
	}
	return "hookladder-link"
}

func (s *server) setLinkCookie(w http.ResponseWriter, r *http.Request, token string, lasts time.Duration) {
	c := &http.Cookie{
		Name: s.linkCookie(), Value: token, Path: s.link + "/", MaxAge: max(int(lasts.Seconds()), 1),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure || r.TLS != nil,
	}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// merchant returns the visitor of a link's cookie. Without a link the visitor is the zero
// value. An error says that the link is unknown.
func (s *server) merchant(ctx context.Context, r *http.Request) (v Visitor, err error) {
	c, err := r.Cookie(s.linkCookie())
	if err != nil || !isToken(c.Value) {
		return v, nil
	}
	l, err := s.Link(ctx, c.Value)
	switch {
	case errors.Is(err, dispatcher.ErrNoLink):
		return v, nil
	case err != nil:
		return v, err
	}
	v.Link = &l
	return v, nil
}

// tokenLength is the length of 32 random bytes in base64.
const tokenLength = 43

// isToken reports whether a text has the form of a link's token.
func isToken(text string) bool {
	return len(text) == tokenLength && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// linkDoor is the data of a link's first page.
type linkDoor struct {
	Token string
	Link  dispatcher.Link
}

// showLink serves GET /link/{token}: a page with a button. Mail and chat programs that
// preview a link do not press it.
func (s *server) showLink(v *visit) (pageAnswer, error) {
	l, err := s.linkOf(v)
	if err != nil {
		return pageAnswer{}, err
	}
	return pageAnswer{template: "link", title: "Open", body: linkDoor{Token: v.r.PathValue("token"), Link: l}}, nil
}

// openLink serves POST /link/{token}. It sets a cookie, so that later URLs do not have the
// token.
func (s *server) openLink(v *visit) (pageAnswer, error) {
	l, err := s.linkOf(v)
	if err != nil {
		return pageAnswer{}, err
	}
	s.setLinkCookie(v.w, v.r, v.r.PathValue("token"), l.ExpiresAt.Sub(s.Now()))
	return pageAnswer{to: s.link + "/"}, nil
}

// linkOf returns the link of the token in the path. Wrong tokens are not counted, because
// 256 random bits can't be guessed.
func (s *server) linkOf(v *visit) (dispatcher.Link, error) {
	token := v.r.PathValue("token")
	if !isToken(token) {
		return dispatcher.Link{}, ErrSignIn
	}
	l, err := s.Link(v.ctx, token)
	if errors.Is(err, dispatcher.ErrNoLink) {
		return l, ErrSignIn
	}
	return l, err
}

// closeLink serves POST /link/sign-out: it deletes the browser's cookie.
func (s *server) closeLink(v *visit) (pageAnswer, error) {
	s.setLinkCookie(v.w, v.r, "", 0)
	v.w.Header().Set("Clear-Site-Data", `"cache"`)
	return pageAnswer{to: s.link + "/"}, nil
}

// logPath returns the path of a request without secrets, for the log.
func (s *server) logPath(r *http.Request) string {
	if rest, ok := strings.CutPrefix(r.URL.Path, s.link+"/"); ok && !strings.Contains(rest, "/") && len(rest) >= tokenLength {
		return s.link + "/***"
	}
	return r.URL.Path
}
