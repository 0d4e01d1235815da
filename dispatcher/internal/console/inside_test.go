package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// No page waits for a store that hangs, and none takes that for a browser that is not
// signed in.
func TestAStoreThatHangsHoldsNoPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		defer close(leave)
		hang := func() { <-leave }
		keyless := false
		var lost error
		pages, err := console.New(console.Options{
			May:     mayAll,
			API:     handler(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":[{"id":"ep_1"}]}`)) }),
			Keyless: func() bool { return keyless }, Now: time.Now,
			Sessions: console.Sessions{Get: func(context.Context, string) (s dispatcher.Session, err error) { hang(); return }},
			Link:     func(context.Context, string) (l dispatcher.Link, err error) { hang(); return },
			Minutes:  func(context.Context, time.Time, time.Time) (m []dispatcher.Minute, err error) { hang(); return },
			Bars: func(context.Context, []dispatcher.Lane, time.Time) (m map[dispatcher.Lane][]dispatcher.Bar, err error) {
				hang()
				return
			},
			Lost: func() error { return lost },
			Log:  slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		look := func(path, cookie, says string) {
			t.Helper()
			r := httptest.NewRequest("GET", "http://localhost"+path, nil)
			r.AddCookie(&http.Cookie{Name: cookie, Value: strings.Repeat("a", 43)})
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, r)
			require.Equal(t, http.StatusServiceUnavailable, w.Code, path)
			require.Contains(t, w.Body.String(), "data-away", path)
			require.Contains(t, w.Body.String(), "<h1>"+says, path)
			require.Equal(t, says == "Redis can't be reached", strings.Contains(w.Body.String(), "no message is accepted"), path)
		}
		look("/console/", "hookladder", "This took too long")
		look("/console/sign-in", "hookladder", "This took too long")
		look("/link/", "hookladder-link", "This took too long")
		lost = errors.New("connection refused")
		look("/console/", "hookladder", "Redis can't be reached")
		look("/console/sign-in", "hookladder", "Redis can't be reached")
		look("/link/", "hookladder-link", "Nothing can be shown now")
	})
}

func handler(f http.HandlerFunc) http.Handler { return f }

func TestACallWithinTheProcessIsOneOfTheAPI(t *testing.T) {
	c, err := console.Inside(handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stats" {
			_, _ = w.Write([]byte(`{"in_flight":7}`))
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"title":"there is none","status":404}`))
	}), console.LinkMeter{})
	require.NoError(t, err)
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, stats.InFlight)
	_, err = c.Message(t.Context(), "m1")
	require.ErrorIs(t, err, client.ErrNotFound)
}

// A store that hangs holds the handler, and no page.
func TestACallWithinTheProcessEndsWithItsContext(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	defer close(leave)
	c, err := console.Inside(handler(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}), console.LinkMeter{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err = c.Stats(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestACallWithinTheProcessThatIsCutOffIsAnError(t *testing.T) {
	c, err := console.Inside(handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), console.LinkMeter{})
	require.NoError(t, err)
	_, err = c.Stats(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)
	c, err = console.Inside(handler(func(w http.ResponseWriter, _ *http.Request) {
		for range 33 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				require.Error(t, err)
				return
			}
		}
	}), console.LinkMeter{})
	require.NoError(t, err)
	_, err = c.Stats(t.Context())
	require.Error(t, err)
	require.False(t, errors.Is(err, client.ErrNotFound))
}

// mayAll lets everybody call everything who is let in at all.
func mayAll(c dispatcher.Browser, _ string) (may, known bool) {
	return c.Read || c.Admin || c.Manage, true
}

func TestAllChangesOfALinkCount(t *testing.T) {
	link := dispatcher.WithBrowser(t.Context(), dispatcher.Browser{Name: "lnk_1", View: dispatcher.View{Tenant: "A"}, Manage: true})
	key := dispatcher.WithBrowser(t.Context(), dispatcher.Browser{Name: "ops", Key: "01", Admin: true})
	for name, change := range map[string]func(context.Context, *client.Client) error{
		"test":   func(ctx context.Context, c *client.Client) error { _, err := c.TestEndpoint(ctx, "ep_1"); return err },
		"retry":  func(ctx context.Context, c *client.Client) error { _, err := c.Retry(ctx, "m", "ep_1"); return err },
		"pause":  func(ctx context.Context, c *client.Client) error { _, err := c.PauseEndpoint(ctx, "ep_1"); return err },
		"resume": func(ctx context.Context, c *client.Client) error { _, err := c.ResumeEndpoint(ctx, "ep_1"); return err },
		"rotate": func(ctx context.Context, c *client.Client) error {
			_, err := c.RotateSecret(ctx, "ep_1", wire.Rotation{})
			return err
		},
		"edit": func(ctx context.Context, c *client.Client) error {
			_, err := c.PatchEndpoint(ctx, "ep_1", map[string]any{"url": "https://x.example"})
			return err
		},
		"create": func(ctx context.Context, c *client.Client) error {
			_, _, err := c.CreateEndpoint(ctx, &wire.Endpoint{URL: "https://x.example"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var spent, calls []string
			var wait time.Duration
			status := http.StatusOK
			c, err := console.Inside(handler(func(w http.ResponseWriter, r *http.Request) {
				calls = append(calls, r.Method)
				w.Header().Set("Content-Type", "application/json")
				if status != http.StatusOK {
					w.Header().Set("Content-Type", "application/problem+json")
				}
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, `{"status":%d}`, status)
			}), console.LinkMeter{
				Spend: func(_ context.Context, link string) (time.Duration, error) {
					spent = append(spent, link)
					return wait, nil
				},
				TakeBack: func(context.Context, string) error {
					spent = spent[:len(spent)-1]
					return nil
				},
			})
			require.NoError(t, err)
			require.NoError(t, change(link, c))
			require.Equal(t, []string{"lnk_1"}, spent)
			status = http.StatusTooManyRequests // such as for want of a place
			require.Error(t, change(link, c))
			require.Equal(t, []string{"lnk_1"}, spent, "a refusal costs nothing")
			status = http.StatusServiceUnavailable
			require.Error(t, change(link, c))
			require.Len(t, spent, 2, "it may have been made")

			status, wait, calls = http.StatusOK, 90*time.Second, nil
			var many *console.SpentError
			require.ErrorAs(t, change(link, c), &many)
			require.Equal(t, 90*time.Second, many.Wait)
			require.Empty(t, calls, "nothing was sent")
			spent = nil
			require.NoError(t, change(key, c))
			_, err = c.Stats(link)
			require.NoError(t, err)
			require.Empty(t, spent, "an operator's changes are not counted, and no reading is")
		})
	}
}
