package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/signer"
)

const (
	// rotationBytes bounds a rotation: the longest secret has 256 characters.
	rotationBytes = 8 << 10
	// usualOverlap is how long old secrets go on, as the contract says.
	usualOverlap = 24 * time.Hour
	// testTime is how long the answer to a test may take: the longest attempt
	// lasts 60 s, with some for the store.
	testTime = 75 * time.Second
	// maxKeys is how many endpoints a page of public keys has at most.
	maxKeys = 50
)

// rotateSecret serves POST /v1/endpoints/{id}/rotate-secret, and answers the new
// secret this once.
func (s *server) rotateSecret(ctx context.Context, c *request) (*response, error) {
	name, err := c.name()
	if err != nil {
		return nil, err
	}
	asked, err := c.rotation()
	if err != nil {
		return nil, err
	}
	if asked.given {
		view, err := s.svc.Endpoint(ctx, name) // its signature says what a secret is
		if err != nil {
			return nil, err
		}
		if asked.next, err = view.Signature.ParseSecret(asked.text); err != nil {
			asked.wrong = join(asked.wrong, []dispatcher.FieldError{{Path: "$.secret", Detail: err.Error()}})
		}
	}
	if p := wrongFields(asked.wrong); p != nil {
		return nil, p
	}
	view, err := s.svc.RotateSecret(ctx, name, asked.next, asked.overlap)
	if err != nil {
		return nil, err
	}
	w, err := wireRotated(view)
	if err != nil {
		return nil, fmt.Errorf("rotate secret of %s: %w", view.ID, err)
	}
	return answerJSON(http.StatusOK, w)
}

// wireRotated is an endpoint with the secret that it was just given.
func wireRotated(v dispatcher.EndpointView) (wire.Rotated, error) {
	e, err := wireEndpoint(v)
	if err != nil || len(v.Secrets) == 0 {
		return wire.Rotated{}, errors.Join(err, dispatcher.ErrSealed)
	}
	w := wire.Rotated{EndpointView: e}
	w.Secret = v.Secrets[0].Secret.Reveal()
	w.PublicKey, _ = v.Secrets[0].Secret.PublicKey()
	if len(v.Secrets) > 1 && v.Signature.Rotates() {
		w.PreviousUntil = wire.Time{Time: v.Secrets[1].Until}
	}
	return w, nil
}

// rotation is what a call to rotate a secret asks for.
type rotation struct {
	overlap time.Duration
	text    string // of the secret
	given   bool   // there is one
	next    signer.Secret
	wrong   []dispatcher.FieldError
}

// rotation reads a rotation, which may have no body at all.
func (c *request) rotation() (rotation, error) {
	if c.r.ContentLength == 0 {
		_, err := c.query()
		return rotation{overlap: usualOverlap}, err
	}
	buf, err := c.json(rotationBytes)
	if err != nil {
		return rotation{}, err
	}
	defer release(buf)
	return decodeRotation(buf)
}

func decodeRotation(buf *bytes.Buffer) (rotation, error) {
	r := rotation{overlap: usualOverlap}
	object, err := members(buf, func(name string, v jsontext.Value) {
		var err error
		switch {
		case name != "overlap" && name != "secret":
			err = errors.New("is unknown")
		case v.Kind() == 'n': // left out
		case name == "overlap":
			if err = duration(&r.overlap, v); err == nil && (r.overlap < 0 || r.overlap > dispatcher.MaxOverlap) {
				err = errors.New("must be 0s to 30d")
			}
		default:
			r.given = true
			err = text(&r.text, v)
		}
		if err != nil {
			r.wrong = append(r.wrong, dispatcher.FieldError{Path: "$" + member(name), Detail: err.Error()})
		}
	})
	if err == nil && !object {
		r.wrong = []dispatcher.FieldError{{Path: "$", Detail: "must be an object"}}
	}
	return r, err
}

// secret serves GET /v1/endpoints/{id}/secret.
func (s *server) secret(ctx context.Context, c *request) (*response, error) {
	name, err := c.name()
	if err != nil {
		return nil, err
	}
	if _, err := c.query(); err != nil {
		return nil, err
	}
	view, err := s.svc.Endpoint(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(view.Secrets) == 0 {
		return nil, fmt.Errorf("read secret of %s: %w", view.ID, dispatcher.ErrSealed)
	}
	w := wire.EndpointSecrets{ID: view.ID, Signature: view.Signature.String(), Secrets: []wire.EndpointSecret{}}
	for _, one := range s.living(view.Secrets) {
		public, _ := one.Secret.PublicKey()
		w.Secrets = append(w.Secrets, wire.EndpointSecret{
			Secret: one.Secret.Reveal(), PublicKey: public, Until: wire.Time{Time: one.Until},
		})
	}
	return answerJSON(http.StatusOK, w)
}

// living are the secrets that sign still.
func (s *server) living(all []dispatcher.EndpointSecret) []dispatcher.EndpointSecret {
	now := time.Now()
	if s.limits.Now != nil {
		now = s.limits.Now()
	}
	out := make([]dispatcher.EndpointSecret, 0, len(all))
	for _, one := range all {
		if one.Until.IsZero() || one.Until.After(now) {
			out = append(out, one)
		}
	}
	return out
}

// test serves POST /v1/endpoints/{id}/test.
func (s *server) test(ctx context.Context, c *request) (*response, error) {
	name, err := c.name()
	if err != nil {
		return nil, err
	}
	if _, err := c.query(); err != nil {
		return nil, err
	}
	// The receiver may take longer than any other call does. Where that can't be
	// allowed for, a late answer is cut.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(testTime))
	result, err := s.svc.TestEndpoint(ctx, name)
	if err != nil {
		return nil, err
	}
	a := wireAttempt(&result.Attempt)
	if result.Attempt.Verdict != dispatcher.Delivered {
		a.Outcome = "failed" // whether a delivery would be tried again is no matter here
	}
	return answerJSON(http.StatusOK, wire.EndpointTest{
		MessageID: result.MessageID, At: a.At, DurationMS: a.DurationMS, StatusCode: a.StatusCode,
		Outcome: a.Outcome, Error: a.Error, ResponseExcerpt: a.ResponseExcerpt,
	})
}

// webhookKeys serves GET /.well-known/webhook-keys. It needs no key, so it does
// not tell whether an endpoint without a public key is there at all, and asks
// the store once a minute at most. Receivers may keep the answer that long.
func (s *server) webhookKeys(ctx context.Context, c *request) (*response, error) {
	q, err := c.query("endpoint", "limit", "cursor")
	if err != nil {
		return nil, err
	}
	p := filterParser{q: q}
	var f dispatcher.PublicKeyFilter
	f.Limit, f.Cursor = p.pageOf(maxKeys)
	p.each("endpoint", func(v string) string {
		if !dispatcher.ValidName(v) {
			return "must be the id or the uid of an endpoint"
		}
		return unless(f.Cursor == "", "has a page of its own: leave the cursor out")
	})
	if wrong := wrongFields(p.wrong); wrong != nil {
		return nil, wrong
	}
	page, err := s.publicKeys(ctx, f, q["endpoint"])
	if err != nil {
		return nil, err
	}
	w := wire.PublicKeyPage{Data: []wire.PublicKey{}, NextCursor: nextCursor(page.Next)}
	for _, key := range page.Keys {
		w.Data = append(w.Data, wire.PublicKey{Endpoint: key.Endpoint, PublicKey: key.Key, Until: wire.Time{Time: key.Until}})
	}
	r, err := answerJSON(http.StatusOK, w)
	if err != nil {
		return nil, err
	}
	seconds := int64((page.Fresh + time.Second - 1) / time.Second)
	r.cacheControl = "public, max-age=" + strconv.FormatInt(seconds, 10)
	return r, nil
}

// publicKeys reads the keys of the endpoints that are named, or a page of all.
func (s *server) publicKeys(ctx context.Context, f dispatcher.PublicKeyFilter, names []string) (dispatcher.PublicKeyPage, error) {
	if len(names) <= 1 {
		f.Name = strings.Join(names, "")
		return s.svc.PublicKeys(ctx, f)
	}
	var all dispatcher.PublicKeyPage
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		f.Name = name
		page, err := s.svc.PublicKeys(ctx, f)
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
