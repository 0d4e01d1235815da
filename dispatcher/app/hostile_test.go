package app_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/app"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// hostile is somebody who may write to Redis, and knows neither API_KEYS nor
// ENCRYPTION_KEY. A receiver of theirs keeps all that it got.
type hostile struct {
	*process
	redis redis.UniversalClient
	home  string
	url   string
	mu    sync.Mutex // guards got
	got   string
}

func newHostile(t *testing.T, o app.Options) *hostile {
	t.Helper()
	h := &hostile{process: start(t, o), home: "{" + o.Project + "}"}
	opts, err := redis.ParseURL(o.RedisURL)
	require.NoError(t, err)
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	h.redis = client
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got += fmt.Sprint(r.Header, string(body), "\n")
	}))
	t.Cleanup(receiver.Close)
	h.url = receiver.URL + "/hostile"
	return h
}

// seen is all that their receiver got so far.
func (h *hostile) seen() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got
}

func (h *hostile) set(key, field, value string) {
	h.t.Helper()
	require.NoError(h.t, h.redis.HSet(h.t.Context(), key, field, value).Err())
}

func (h *hostile) hash(key, field string) string {
	h.t.Helper()
	text, err := h.redis.HGet(h.t.Context(), key, field).Result()
	require.NoError(h.t, err, "%s %s", key, field)
	return text
}

// with is a browser with a cookie.
func (h *hostile) with(name, value string) *person {
	who := newPerson(h.t, h.api)
	at, _ := url.Parse(h.api + "/link/")
	who.client.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
	return who
}

// cookie is what a person's browser has of a name.
func (p *person) cookie(name, path string) string {
	at, _ := url.Parse(p.api + path)
	for _, c := range p.client.Jar.Cookies(at) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// ownerOf stands for a key in Redis.
func ownerOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// sealings are deployments with and without ENCRYPTION_KEY.
func sealings(t *testing.T, test func(t *testing.T, o app.Options)) {
	box, err := app.ParseEncryptionKeys("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	require.NoError(t, err)
	for name, seal := range map[string]*app.Seal{"sealed": box, "plain": nil} {
		t.Run(name, func(t *testing.T) {
			o := peoplesOptions(t, redistest.Start(t).URL())
			o.Seal, o.Partitions = seal, 1
			test(t, o)
		})
	}
}

func TestASessionThatIsForgedInRedisSignsNobodyIn(t *testing.T) {
	sealings(t, func(t *testing.T, o app.Options) {
		h := newHostile(t, o)
		e := h.mustEndpoint("A", newTestTaker(t))
		boss, support := h.signedIn("boss"), h.signedIn("support")
		theirs := h.home + ":session:" + ownerOf(peoplesKeys["boss"])
		fields := h.redis.HGetAll(t.Context(), theirs).Val()
		delete(fields, "opened")
		require.Len(t, fields, 1)
		ends := time.Now().Add(time.Hour).UnixMilli()

		low := dispatcher.HashToken(support.cookie("hookladder", "/"))
		own := h.hash(h.home+":session:"+ownerOf(peoplesKeys["support"]), low)
		mac := own[strings.LastIndex(own, " ")+1:]
		for _, record := range fields {
			for _, token := range []string{"x", dispatcher.AccessKey{}.NewSession(), dispatcher.NewAccessKey(ownerOf(peoplesKeys["boss"]), [32]byte{}).NewSession()} {
				hash := dispatcher.HashToken(token)
				for _, text := range []string{record, own, fmt.Sprintf("1 %d %s", ends, mac), fmt.Sprintf("1 %d ", ends), fmt.Sprint(ends)} {
					h.set(theirs, hash, text)
					h.set(h.home+":session:"+hash, "key", ownerOf(peoplesKeys["boss"])) // as it was once
					h.set(h.home+":session:"+hash, "until", fmt.Sprint(ends))
					require.True(t, h.with("hookladder", token).get("/console/").toSignIn(), "%q", text)
				}
			}
			h.set(theirs, low, record) // a weaker key's session as that of a stronger one
		}
		require.Equal(t, http.StatusForbidden, support.get("/console/audit").StatusCode)
		require.Equal(t, http.StatusForbidden, support.post("/console/endpoints/"+e+"/secret", nil).StatusCode)

		h.set(h.home+":session:"+ownerOf(peoplesKeys["support"]), low, fmt.Sprintf("%s %d %s", strings.Fields(own)[0], time.Now().Add(1000*time.Hour).UnixMilli(), mac))
		require.True(t, support.get("/console/").toSignIn(), "one that was prolonged by hand")
		require.Equal(t, http.StatusOK, boss.get("/console/").StatusCode)
	})
}

func TestALinkThatIsForgedInRedisOpensNothing(t *testing.T) {
	sealings(t, func(t *testing.T, o app.Options) {
		h := newHostile(t, o)
		e := h.mustEndpoint("A", newTestTaker(t))
		path, id := h.mustLink(wire.LinkRequest{Tenant: "B"})
		who := h.openedLink(path)
		links := h.home + ":links"
		good := h.hash(links, id)
		parts := strings.SplitN(good, " ", 6)
		put := func(id, hash, allows string) {
			text := strings.Join([]string{hash, parts[1], parts[2], "-", parts[4], allows}, " ")
			h.set(links, id, text)
		}
		for _, allows := range []string{
			strings.Replace(parts[5], `"B"`, `"A"`, 1), strings.Replace(parts[5], `"B"`, `"B","Manage":true`, 1), strings.Replace(parts[5], `"Key":"`, `"Key":"0`, 1),
		} {
			require.NotEqual(t, parts[5], allows)
			put(id, parts[0], allows)
			require.Equal(t, http.StatusNotFound, who.get("/link/").StatusCode, allows)
		}
		h.set(links, id, strings.Replace(good, parts[2], fmt.Sprint(time.Now().Add(10_000*time.Hour).UnixMilli()), 1))
		require.Equal(t, http.StatusNotFound, who.get("/link/").StatusCode, "prolonged")
		for _, token := range []string{dispatcher.AccessKey{}.NewLink(), dispatcher.NewAccessKey(ownerOf(peoplesKeys["boss"]), [32]byte{}).NewLink()} {
			put(dispatcher.LinkID(token), dispatcher.HashToken(token), strings.Replace(parts[5], `"B"`, `"A","Manage":true`, 1))
			forged := h.with("hookladder-link", token)
			require.Equal(t, http.StatusNotFound, forged.get("/link/").StatusCode)
			require.Equal(t, http.StatusNotFound, forged.get("/link/"+token).StatusCode)
			forged.act("/link/endpoints/"+e, url.Values{"url": {h.url}, "was.url": {"x"}})
			view, err := h.boss().Endpoint(t.Context(), e)
			require.NoError(t, err)
			require.NotEqual(t, h.url, view.URL)
		}
		h.set(links, id, good)
		require.Equal(t, http.StatusOK, who.get("/link/").StatusCode)
	})
}

// Without ENCRYPTION_KEY all lies open in Redis. With it nothing that is sealed comes to
// another address than the one for which it was set.
func TestWhatIsSealedGoesNowhereElseThoughRedisSaysSo(t *testing.T) {
	sealings(t, func(t *testing.T, o app.Options) {
		if o.Seal == nil {
			return // nothing is sealed
		}
		const secret = "OPERATORS-SECRET-42"
		h := newHostile(t, o)
		boss := h.boss()
		victim, _, err := boss.CreateEndpoint(t.Context(), &wire.Endpoint{
			Tenant: "A", URL: newTestTaker(t), Topics: []string{"*"}, Headers: map[string]string{"Authorization": secret},
		})
		require.NoError(t, err)
		own, _, err := boss.CreateEndpoint(t.Context(), &wire.Endpoint{
			Tenant: "B", URL: h.url, Topics: []string{"*"}, Headers: map[string]string{"Authorization": "mine"},
		})
		require.NoError(t, err)
		records := h.home + ":endpoints"
		good, theirs := h.hash(records, victim.ID), h.hash(records, own.ID)
		require.NotContains(t, good, secret)
		publish := func(id string, m wire.Message) {
			t.Helper()
			m.ID, m.Topic, m.Body = id, "payment.paid", json.RawMessage(`{}`)
			_, err := boss.Publish(t.Context(), &m)
			require.NoError(t, err)
		}
		taker, _ := json.Marshal(victim.URL)
		hostileURL, _ := json.Marshal(h.url)
		moved := strings.Replace(good, string(taker), string(hostileURL), 1)
		require.NotEqual(t, good, moved)
		withoutMAC := moved[:strings.LastIndex(moved, `,"mac":"`)] + "}"
		_, record, _ := strings.Cut(good, " ")
		ownVersion, _, _ := strings.Cut(theirs, " ")
		for i, forged := range []struct{ id, text string }{
			{victim.ID, moved}, {victim.ID, withoutMAC}, {own.ID, ownVersion + " " + record},
			{own.ID, strings.Replace(theirs, sealedIn(t, theirs), sealedIn(t, good), 1)},
		} {
			h.set(records, victim.ID, good)
			h.set(records, own.ID, theirs)
			h.set(records, forged.id, forged.text)
			require.NoError(t, h.redis.Publish(t.Context(), records, "").Err())
			other := start(t, o) // it has cached nothing
			publish(fmt.Sprint("a", i), wire.Message{Tenant: "A", Endpoint: victim.ID})
			publish(fmt.Sprint("b", i), wire.Message{Tenant: "B", Endpoint: own.ID})
			require.Eventually(t, func() bool { // each was attempted, or waits for the key
				return done(t, boss, fmt.Sprint("a", i)) && done(t, boss, fmt.Sprint("b", i))
			}, patience, 10*time.Millisecond)
			other.stop()
			require.NotContains(t, h.seen(), secret, "forged %d", i)
		}
		h.set(records, victim.ID, good)
		h.set(records, own.ID, theirs)

		// A message with a sealed header: other address, other endpoint.
		publish("url", wire.Message{Tenant: "A", URL: newTestTaker(t) + "/aaaaaaaaaaaaaaaa", Headers: map[string]string{"X-Key": secret}, Delay: wire.Duration(time.Hour)})
		publish("fan", wire.Message{Tenant: "A", Endpoint: victim.ID, Headers: map[string]string{"X-Key": secret}, Delay: wire.Duration(time.Hour)})
		tag := "{" + o.Project + ":0}"
		text := h.hash(tag+":messages", "url")
		require.NotContains(t, text, secret)
		m, err := boss.Message(t.Context(), "url")
		require.NoError(t, err)
		at := m.URL
		same := h.url + strings.Repeat("a", max(0, len(at)-len(h.url)))
		require.Len(t, same, len(at))
		require.Contains(t, text, at)
		h.set(tag+":messages", "url", strings.Replace(text, at, same, 1))
		require.NoError(t, h.redis.ZAdd(t.Context(), tag+":due", redis.Z{Score: 1, Member: m.Deliveries[0].ID}, redis.Z{Score: 1, Member: own.ID + ":fan"}).Err())
		// Their own queue and their own pull endpoint.
		publish("queued", wire.Message{Tenant: "A", Queue: "orders", Headers: map[string]string{"X-Key": secret}, Delay: wire.Duration(time.Hour)})
		pull, _, err := boss.CreateEndpoint(t.Context(), &wire.Endpoint{Tenant: "B", Kind: "pull", Topics: []string{"x.y"}})
		require.NoError(t, err)
		for _, into := range []string{"mine", pull.ID} {
			lane := into
			m := wire.Message{Tenant: "B", Queue: into, Delay: wire.Duration(time.Hour)} // so that the lane is there
			if into == pull.ID {
				m.Queue, m.Endpoint = "", into
			} else {
				lane = "q_" + into
			}
			publish("known-"+lane, m)
			for _, id := range []string{"queued", "fan", "url"} {
				require.NoError(t, h.redis.ZAdd(t.Context(), tag+":due", redis.Z{Score: 1, Member: lane + ":" + id}).Err())
			}
			for range 3 {
				got, err := boss.Take(t.Context(), into, wire.Take{Max: 10, Wait: wire.Duration(100 * time.Millisecond)})
				require.NoError(t, err)
				text, _ := json.Marshal(got)
				require.NotContains(t, string(text), secret, into)
			}
			require.NotEqual(t, 1.0, h.redis.ZScore(t.Context(), tag+":due", lane+":queued").Val(), "it was looked at")
		}
		require.NoError(t, h.redis.Publish(t.Context(), h.home+":wake", "0").Err())
		judged := func(lane, id string) bool { // it was sent, or waits for the key
			return h.redis.ZScore(t.Context(), tag+":unopened", lane+":"+id).Err() == nil || strings.Contains(h.seen(), "Webhook-Id:["+id+"]")
		}
		require.Eventually(t, func() bool { return judged(own.ID, "fan") && judged(m.Deliveries[0].Destination, "url") }, patience, 10*time.Millisecond)
		require.NotContains(t, h.seen(), secret)
	})
}

// done reports whether a message ended, or waits for another reason than its time.
func done(t *testing.T, c *client.Client, id string) bool {
	m, err := c.Message(t.Context(), id)
	require.NoError(t, err)
	d := m.Deliveries[0]
	return d.Status == "delivered" || d.Status == "dead" || d.WaitingFor == "sealed" || d.WaitingFor == "rung"
}

// sealedIn is the sealed value of the header in a record.
func sealedIn(t *testing.T, record string) string {
	t.Helper()
	at := strings.Index(record, `"headers"`)
	require.Positive(t, at)
	from := strings.Index(record[at:], `"x":"`)
	require.Positive(t, from, record)
	from += at + len(`"x":"`)
	return record[from : from+strings.Index(record[from:], `"`)]
}

// Write access to Redis is enough to hold deliveries, and to add to the audit. Neither lets
// anybody in, nor stops the pages.
func TestHoldsAndAuditEntriesThatAreForgedLetNobodyIn(t *testing.T) {
	sealings(t, func(t *testing.T, o app.Options) {
		h := newHostile(t, o)
		e := h.mustEndpoint("A", newTestTaker(t))
		tag := "{" + o.Project + ":0}"
		for _, lane := range []string{"*", e, "u_none"} {
			for _, text := range []string{"", "x", "paused", `{"by":"key:boss"}`, "1 2 3 4 5"} {
				h.set(tag+":held", lane, text)
			}
		}
		for _, stream := range []string{":audit", ":acts"} {
			require.NoError(t, h.redis.XAdd(t.Context(), &redis.XAddArgs{Stream: h.home + stream, Values: []string{"by", "key:boss", "what", "secret.read", "target", e, "more", "x"}}).Err())
			require.NoError(t, h.redis.XAdd(t.Context(), &redis.XAddArgs{Stream: h.home + stream, Values: []string{"x", "<script>"}}).Err())
		}
		boss := h.signedIn("boss")
		for _, at := range []string{"/console/", "/console/audit", "/console/lanes", "/console/system", "/console/endpoints"} {
			require.Equal(t, http.StatusOK, boss.get(at).StatusCode, at)
			require.True(t, newPerson(t, h.api).get(at).toSignIn(), at)
		}
		page, err := h.boss().Audit(t.Context(), client.AuditFilter{What: []string{"secret.read"}})
		require.NoError(t, err)
		require.Len(t, page.Data, 2)
	})
}
