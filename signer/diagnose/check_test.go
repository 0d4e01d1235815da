package diagnose_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/signer"
	"github.com/hookladder/hookladder/signer/diagnose"
)

const sample = `{"type":"order.paid","data":{"order":"ord_1","total":1050}}`

// fakeReceiver is what a test receiver does, and what it does wrong.
type fakeReceiver struct {
	http.Handler
	verifier *signer.Verifier

	mu   sync.Mutex
	seen map[string]bool
	last int64
}

func newReceiver(t testing.TB, scheme signer.Scheme, wrong func(r *fakeReceiver, next http.Handler) http.Handler) diagnose.Target {
	t.Helper()
	secret := scheme.NewSecret()
	keys := secret.Reveal()
	if public, ok := secret.PublicKey(); ok {
		keys = public
	}
	verifier, err := scheme.NewVerifier(keys)
	require.NoError(t, err)
	r := &fakeReceiver{verifier: verifier, seen: map[string]bool{}}
	r.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.verifier.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		})).ServeHTTP(w, q)
	})
	if wrong != nil {
		r.Handler = wrong(r, r.Handler)
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return diagnose.Target{
		URL: server.URL + "/hooks", Scheme: scheme, Secret: secret, Topic: "order.paid", Body: []byte(sample), Type: "application/json",
		Agent: "Hookladder/test", Timeout: time.Minute, Slowly: time.Millisecond,
	}
}

// lost are the trials that a receiver did not pass.
func lost(r diagnose.CheckReport) (names []string) {
	for _, one := range r.Trials {
		if one.Points < one.Of {
			names = append(names, one.Trial)
		}
	}
	return names
}

func TestAGoodReceiverGetsAllPoints(t *testing.T) {
	t.Parallel()
	for _, scheme := range signer.Schemes() {
		var reported []diagnose.CheckResult
		report, err := diagnose.Check(t.Context(), newReceiver(t, scheme, nil), func(r diagnose.CheckResult) { reported = append(reported, r) })
		require.NoError(t, err)
		require.Empty(t, lost(report), "%s: %v", scheme, report.Trials)
		require.Equal(t, report.Trials, reported)
		require.Equal(t, report.Of, report.Points)
		if scheme == signer.Standard {
			require.Equal(t, 100, report.Of)
			require.Len(t, report.Trials, len(diagnose.Names()))
		}
	}
}

func TestABadReceiverLosesThePointsOfWhatItDoesWrong(t *testing.T) {
	t.Parallel()
	type handler = func(*fakeReceiver, http.Handler) http.Handler
	before := func(do func(r *fakeReceiver, w http.ResponseWriter, q *http.Request) (done bool)) handler {
		return func(r *fakeReceiver, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if !do(r, w, q) {
					next.ServeHTTP(w, q)
				}
			})
		}
	}
	for _, c := range []struct {
		name string
		does handler
		lost []string
	}{
		{"takes everything", before(func(*fakeReceiver, http.ResponseWriter, *http.Request) bool { return true }),
			[]string{"forged", "altered", "unsigned", "cut", "stale", "early", "renamed"}},
		{"takes what is unsigned", before(func(_ *fakeReceiver, _ http.ResponseWriter, q *http.Request) bool {
			return q.Header.Get(signer.HeaderSignature) == ""
		}), []string{"unsigned"}},
		{"has no clock", before(func(r *fakeReceiver, _ http.ResponseWriter, q *http.Request) bool {
			seconds, _ := strconv.ParseInt(q.Header.Get(signer.HeaderTimestamp), 10, 64)
			r.mu.Lock()
			defer r.mu.Unlock()
			v := *r.verifier
			v.Now = func() time.Time { return time.Unix(seconds, 0) }
			_, err := v.VerifyRequest(q)
			return err == nil
		}), []string{"stale", "early"}},
		{"verifies JSON that it wrote anew", before(func(_ *fakeReceiver, _ http.ResponseWriter, q *http.Request) bool {
			body, _ := io.ReadAll(q.Body)
			var out bytes.Buffer
			_ = json.Compact(&out, body)
			q.Body, q.ContentLength = io.NopCloser(&out), int64(out.Len())
			return false
		}), []string{"rewritten", "large"}},
		{"refuses repeats", before(func(r *fakeReceiver, w http.ResponseWriter, q *http.Request) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			id := q.Header.Get(signer.HeaderID)
			if r.seen[id] {
				w.WriteHeader(http.StatusConflict)
				return true
			}
			r.seen[id] = true
			return false
		}), []string{"repeated"}},
		{"wants an order", before(func(r *fakeReceiver, w http.ResponseWriter, q *http.Request) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			seconds, _ := strconv.ParseInt(q.Header.Get(signer.HeaderTimestamp), 10, 64)
			if age := time.Now().Unix() - seconds; age >= 2 && age < 60 && seconds < r.last {
				w.WriteHeader(http.StatusConflict)
				return true
			}
			if seconds <= time.Now().Unix() {
				r.last = max(r.last, seconds)
			}
			return false
		}), []string{"unordered"}},
		{"looks at the first signature only", before(func(_ *fakeReceiver, _ http.ResponseWriter, q *http.Request) bool {
			first, _, _ := strings.Cut(q.Header.Get(signer.HeaderSignature), " ")
			q.Header.Set(signer.HeaderSignature, first)
			return false
		}), []string{"rotated"}},
		{"refuses topics that it does not know", before(func(_ *fakeReceiver, w http.ResponseWriter, q *http.Request) bool {
			if q.Header.Get("hookladder-topic") == "order.paid" {
				return false
			}
			w.WriteHeader(http.StatusBadRequest)
			return true
		}), []string{"other topic"}},
		{"has room for small bodies", before(func(r *fakeReceiver, w http.ResponseWriter, q *http.Request) bool {
			q.Body = http.MaxBytesReader(w, q.Body, 64<<10)
			return false
		}), []string{"large"}},
		{"falls over what is forged", func(_ *fakeReceiver, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				rec := httptest.NewRecorder()
				if next.ServeHTTP(rec, q); rec.Code >= 400 {
					rec.Code = http.StatusInternalServerError
				}
				w.WriteHeader(rec.Code)
			})
		}, []string{"forged", "altered", "unsigned", "cut", "stale", "early", "renamed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			report, err := diagnose.Check(t.Context(), newReceiver(t, signer.Standard, c.does), func(diagnose.CheckResult) {})
			require.NoError(t, err)
			require.ElementsMatch(t, c.lost, lost(report), "%v", report.Trials)
			require.Less(t, report.Points, 100)
			for _, one := range report.Trials {
				require.Equal(t, one.Points < one.Of, one.Cure != "", one.Trial)
			}
		})
	}
}

func TestAReceiverThatIsBusyWithOneLosesThePointsOfManyAtOnce(t *testing.T) {
	t.Parallel()
	var last atomic.Bool // the trial of many at once has begun
	refused := make(chan struct{})
	var once sync.Once
	r := newReceiver(t, signer.Standard, func(r *fakeReceiver, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if !r.mu.TryLock() {
				once.Do(func() { close(refused) })
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			defer r.mu.Unlock()
			if last.Load() {
				<-refused // so it is busy while another comes
			}
			next.ServeHTTP(w, q)
		})
	})
	names := diagnose.Names()
	report, err := diagnose.Check(t.Context(), r, func(r diagnose.CheckResult) { last.Store(r.Trial == names[len(names)-2]) })
	require.NoError(t, err)
	require.Equal(t, []string{"at once"}, lost(report))
}

func TestWhatTakesNothingSoundIsNotTriedFurther(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"refuses": http.StatusUnauthorized, "redirects": http.StatusFound, "fails": http.StatusBadGateway} {
		calls := 0
		r := newReceiver(t, signer.Standard, func(*fakeReceiver, http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.Header().Set("location", "/")
				w.WriteHeader(status)
			})
		})
		report, err := diagnose.Check(t.Context(), r, func(diagnose.CheckResult) {})
		require.ErrorIs(t, err, diagnose.ErrNotTaken, name)
		require.Equal(t, 1, calls)
		require.Len(t, report.Trials, 1)
		require.Contains(t, report.Trials[0].Says, strconv.Itoa(status))
	}
	r := newReceiver(t, signer.Standard, nil)
	r.URL = "http://127.0.0.1:1/?token=secret"
	_, err := diagnose.Check(t.Context(), r, func(diagnose.CheckResult) {})
	require.ErrorIs(t, err, diagnose.ErrNoAnswer)
	require.NotContains(t, err.Error(), "token")
}

func TestALateAnswerLosesItsPoints(t *testing.T) {
	t.Parallel()
	require.Zero(t, diagnose.Judge(time.Second, 2*time.Second).Points)
	require.Equal(t, 5, diagnose.Judge(time.Second, time.Second).Points)
	require.Equal(t, 5, diagnose.Judge(0, time.Hour).Points)
	require.True(t, slices.Contains(diagnose.Names(), "quick"))
}
