package dispatcher_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/success"
	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
)

var judgedAt = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newTestCase is the first attempt of a delivery on the ladder 15s, 3m, 25h.
func mustRule(t testing.TB, text string) *success.Rule {
	t.Helper()
	r, err := success.Parse(text)
	require.NoError(t, err, text)
	return r
}

func newTestCase(t testing.TB, a dispatcher.Answer) dispatcher.Case {
	t.Helper()
	l, err := ladder.New(15*time.Second, 3*time.Minute, 25*time.Hour)
	require.NoError(t, err)
	return dispatcher.Case{Answer: a, Rung: 1, Ladder: l, Now: judgedAt}
}

func TestAnswersMean(t *testing.T) {
	ok := func(body string) dispatcher.Answer { return dispatcher.Answer{Status: 200, Body: []byte(body)} }
	status := func(code int) dispatcher.Answer { return dispatcher.Answer{Status: code} }
	retry := func(code int, text string) dispatcher.Outcome {
		return dispatcher.Outcome{
			Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus, Status: code, Error: text}, Wait: 15 * time.Second, Blame: code >= 500,
		}
	}
	delivered := func(code int) dispatcher.Outcome {
		return dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Delivered, Status: code}}
	}
	badBody := func(text string) dispatcher.Outcome {
		return dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassBody, Status: 200, Error: text}, Wait: 15 * time.Second}
	}
	dead := func(reason dispatcher.DeadReason, class dispatcher.Class, code int, text string) dispatcher.Outcome {
		return dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Dead, Class: class, Status: code, Error: text}, Reason: reason, Blame: code >= 500}
	}
	rejected := func(code int) dispatcher.Answer { return dispatcher.Answer{Status: code, Rejected: true} }
	moved := func(location string) dispatcher.Answer { return dispatcher.Answer{Status: 301, Location: location} }
	cases := []struct {
		name    string
		answer  dispatcher.Answer
		success string // empty: none
		change  func(*dispatcher.Case)
		want    dispatcher.Outcome
	}{
		{"any 2xx is delivered", status(204), "", nil, delivered(204)},
		{"a body that nobody asked about does not matter", ok("whatever"), "", nil, delivered(200)},
		{"a broken body does not matter either", dispatcher.Answer{Status: 200, Cut: true}, "", nil, delivered(200)},
		{"the word asked for is delivered", ok(" success\n"), `{"body":"success"}`, nil, delivered(200)},
		{"another word is not", ok("fail"), `{"body":"success"}`, nil, badBody(`status 200, but the body is not "success"`)},
		{"a body that was not read is not", dispatcher.Answer{Status: 200, Cut: true, Unread: "it was not read"}, `{"body":"success"}`, nil, badBody(`status 200, but the body is not "success"; it was not read`)},
		{"a status is one, whatever was not read", dispatcher.Answer{Status: 204, Cut: true, Unread: "it was not read"}, "", nil, delivered(204)},
		{"another status is told with what was not read", dispatcher.Answer{Status: 503, Cut: true, Unread: "it was not read"}, "", nil, retry(503, "status 503; it was not read")},
		{"another value is not", ok(`{"code":"FAIL"}`), `{"body":{"path":"code","equals":"SUCCESS"}}`, nil, badBody(`status 200, but code in the body is not "SUCCESS"`)},
		{"a body that does not match is not", ok("no"), `{"body":{"matches":"ok"}}`, nil, badBody("status 200, but the body does not match the pattern asked for")},
		{"the word under another status is not", dispatcher.Answer{Status: 500, Body: []byte("success")}, `{"body":"success"}`, nil, retry(500, "status 500")},
		{"the word under any status is, where any will do", dispatcher.Answer{Status: 500, Body: []byte("success")}, `{"status":["*"],"body":"success"}`, nil, delivered(500)},
		{"a 2xx that is not asked for is not", status(204), "200,201", nil, retry(204, "status 204, not one of 200, 201")},
		{"a 500 is tried again", status(500), "", nil, retry(500, "status 500")},
		{"a 400 is tried again", status(400), "", nil, retry(400, "status 400")},
		{"a status that nobody knows is tried again", status(799), "", nil, retry(799, "status 799")},
		{"a redirect is not followed", status(302), "", nil, retry(302, "status 302: redirects are not followed")},
		{"a redirect says whither", moved("https://shop.example/hooks"), "", nil, retry(301, "status 301 to https://shop.example/hooks: redirects are not followed")},
		{"a redirect says no more than where", moved("//me:geheim@shop.example:8443/a%20b?token=geheim#x"), "", nil, retry(301, "status 301 to //shop.example:8443/a%20b: redirects are not followed")},
		{"a redirect that is a path says that", moved("/login"), "", nil, retry(301, "status 301 to /login: redirects are not followed")},
		{"a redirect is nothing that a terminal acts on", moved("https://\u202eshop/\u009b2J\xff"), "", nil, retry(301, "status 301 to https://%E2%80%AEshop/%C2%9B2J%FF: redirects are not followed")},
		{"a long redirect is cut", moved("/" + strings.Repeat("x", 3000)), "", nil, retry(301, "status 301 to /"+strings.Repeat("x", 199)+"...: redirects are not followed")},
		{"a redirect to no URL is a redirect", moved("http://%zz"), "", nil, retry(301, "status 301: redirects are not followed")},
		{"a redirect to no place either", moved("javascript:alert(1)"), "", nil, retry(301, "status 301: redirects are not followed")},
		{"a redirect that is asked for is delivered", status(302), "302", nil, delivered(302)},
		{"leaving HTTP is a failure", status(101), "", nil, retry(101, "status 101: the receiver left HTTP")},
		{"leaving HTTP is a failure even where any status will do", status(101), "*", nil, retry(101, "status 101: the receiver left HTTP")},
		{"an announcement is a failure", status(103), "*", nil, retry(103, "status 103: an announcement, not an answer")},
		{"gone is dead at once", status(410), "", nil, dead(dispatcher.ReasonGone, dispatcher.ClassStatus, 410, "status 410: gone for good")},
		{"gone is delivered where it is asked for", status(410), "410", nil, delivered(410)},
		{"gone with another word than asked for is gone", dispatcher.Answer{Status: 410, Body: []byte("no")}, `{"status":["*"],"body":"success"}`, nil,
			dead(dispatcher.ReasonGone, dispatcher.ClassBody, 410, `status 410, but the body is not "success"`)},
		{"one that the receiver rejects is dead, and its lane is not blamed", rejected(500), "", nil,
			func() dispatcher.Outcome {
				o := dead(dispatcher.ReasonRejected, dispatcher.ClassStatus, 500, "status 500, and the receiver asks for no further attempt")
				o.Blame = false
				return o
			}()},
		{"a rejection is about one delivery, also with 410", rejected(410), "", nil,
			dead(dispatcher.ReasonRejected, dispatcher.ClassStatus, 410, "status 410: gone for good, and the receiver asks for no further attempt")},
		{"a success that rejects is delivered", rejected(200), "", nil, delivered(200)},
		{"no answer is tried again", dispatcher.Answer{Class: dispatcher.ClassTimeout, Err: errors.New("timed out connecting")}, "", nil,
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassTimeout, Error: "timed out connecting"}, Wait: 15 * time.Second, Blame: true}},
		{"no answer is never a success", dispatcher.Answer{Class: dispatcher.ClassReset, Err: errors.New("reset")}, "*", nil,
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassReset, Error: "reset"}, Wait: 15 * time.Second, Blame: true}},
		{"a sender that says nothing has failed", dispatcher.Answer{}, "", nil,
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassInternal, Error: "no answer, and no reason for it"}, Wait: 15 * time.Second}},
		{"an address that may not be called is dead at once", dispatcher.Answer{Class: dispatcher.ClassRefused, Err: errors.New("10.1.2.3 is private")}, "", nil,
			dead(dispatcher.ReasonRefused, dispatcher.ClassRefused, 0, "10.1.2.3 is private")},
		{"what expired before it was attempted is dead", dispatcher.Answer{Class: dispatcher.ClassExpired}, "", nil,
			dead(dispatcher.ReasonExpired, dispatcher.ClassExpired, 0, "expired before it could be attempted")},
		{"the second failure takes the second rung", status(500), "", func(c *dispatcher.Case) { c.Rung = 2 },
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus, Status: 500, Error: "status 500"}, Wait: 3 * time.Minute, Blame: true}},
		{"the attempt after the last rung is the last", status(500), "", func(c *dispatcher.Case) { c.Rung = 4 },
			dead(dispatcher.ReasonExhausted, dispatcher.ClassStatus, 500, "status 500")},
		{"the last attempt may succeed", status(200), "", func(c *dispatcher.Case) { c.Rung = 4 }, delivered(200)},
		{"without a ladder there is one attempt", status(500), "", func(c *dispatcher.Case) { c.Ladder = ladder.Ladder{} },
			dead(dispatcher.ReasonExhausted, dispatcher.ClassStatus, 500, "status 500")},
		{"fewer attempts than the ladder has cut it", status(500), "", func(c *dispatcher.Case) { c.Rung, c.MaxAttempts = 2, 2 },
			dead(dispatcher.ReasonExhausted, dispatcher.ClassStatus, 500, "status 500")},
		{"more attempts than the ladder has do not stretch it", status(500), "", func(c *dispatcher.Case) { c.Rung, c.MaxAttempts = 4, 9 },
			dead(dispatcher.ReasonExhausted, dispatcher.ClassStatus, 500, "status 500")},
		{"an attempt that would come at the expiry is not made", status(500), "", func(c *dispatcher.Case) { c.ExpiresAt = judgedAt.Add(15 * time.Second) },
			dead(dispatcher.ReasonExpired, dispatcher.ClassStatus, 500, "status 500")},
		{"an attempt that comes just before the expiry is made", status(500), "", func(c *dispatcher.Case) { c.ExpiresAt = judgedAt.Add(15*time.Second + 1) }, retry(500, "status 500")},
		{"an answer that comes after the expiry counts", status(200), "", func(c *dispatcher.Case) { c.ExpiresAt = judgedAt.Add(-time.Hour) }, delivered(200)},
		{"after the last rung it is exhausted rather than expired", status(500), "", func(c *dispatcher.Case) { c.Rung, c.ExpiresAt = 4, judgedAt }, dead(dispatcher.ReasonExhausted, dispatcher.ClassStatus, 500, "status 500")},
		{"jitter makes the wait longer", status(500), "", func(c *dispatcher.Case) { c.Jitter, c.Random = 0.2, 0.5 },
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus, Status: 500, Error: "status 500"}, Wait: 16500 * time.Millisecond, Blame: true}},
		{"jitter counts for the expiry", status(500), "", func(c *dispatcher.Case) {
			c.Jitter, c.Random, c.ExpiresAt = 0.2, 0.5, judgedAt.Add(16*time.Second)
		}, dead(dispatcher.ReasonExpired, dispatcher.ClassStatus, 500, "status 500")},
		{"an attempt beside the ladder waits the rung that it interrupted", status(500), "", func(c *dispatcher.Case) { c.Rung, c.WaitsOn = 2, judgedAt.Add(time.Second) }, retry(500, "status 500")},
		{"one beside its last rung is not the last", status(500), "", func(c *dispatcher.Case) { c.Rung, c.WaitsOn = 4, judgedAt },
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus, Status: 500, Error: "status 500"}, Wait: 25 * time.Hour, Blame: true}},
		{"one beside a rung that the ladder has no more waits the last", status(500), "", func(c *dispatcher.Case) { c.Rung, c.MaxAttempts, c.WaitsOn = 4, 3, judgedAt },
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus, Status: 500, Error: "status 500"}, Wait: 3 * time.Minute, Blame: true}},
		{"one before the first attempt interrupted no rung", status(500), "", func(c *dispatcher.Case) { c.WaitsOn = judgedAt },
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus, Status: 500, Error: "status 500"}, Blame: true}},
		{"one without a ladder is not the last either", status(500), "", func(c *dispatcher.Case) { c.Ladder, c.WaitsOn = ladder.Ladder{}, judgedAt.Add(time.Hour) },
			dispatcher.Outcome{Attempt: dispatcher.Attempt{Verdict: dispatcher.Retry, Class: dispatcher.ClassStatus, Status: 500, Error: "status 500"}, Blame: true}},
		{"one beside the ladder is dead where the receiver is gone", status(410), "", func(c *dispatcher.Case) { c.WaitsOn = judgedAt.Add(time.Hour) },
			dead(dispatcher.ReasonGone, dispatcher.ClassStatus, 410, "status 410: gone for good")},
		{"one that would wait on past the expiry is dead", status(500), "", func(c *dispatcher.Case) {
			c.WaitsOn, c.ExpiresAt = judgedAt.Add(time.Hour), judgedAt.Add(time.Hour)
		}, dead(dispatcher.ReasonExpired, dispatcher.ClassStatus, 500, "status 500")},
		{"one that waits on until just before the expiry is not", status(500), "", func(c *dispatcher.Case) {
			c.Rung, c.WaitsOn, c.ExpiresAt = 2, judgedAt.Add(time.Second), judgedAt.Add(2*time.Second)
		}, retry(500, "status 500")},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCase(t, tc.answer)
			if tc.success != "" {
				c.Success = mustRule(t, tc.success)
			}
			if tc.change != nil {
				tc.change(&c)
			}
			got := dispatcher.Judge(c)
			tc.want.Fails = got.Fails // a table of its own has that
			require.Equal(t, tc.want, got)
		})
	}
}

func TestRetryAfterIsHeardWithinReason(t *testing.T) {
	at := func(d time.Duration, layout string) string {
		return judgedAt.Add(d).Format(layout)
	}
	const (
		imf     = "Mon, 02 Jan 2006 15:04:05 GMT"
		rfc850  = "Monday, 02-Jan-06 15:04:05 GMT"
		asctime = "Mon Jan _2 15:04:05 2006"
	)
	cases := []struct {
		name   string
		status int
		header string
		rung   int
		want   time.Duration
	}{
		{"seconds that are later than the rung", 429, "120", 1, 2 * time.Minute},
		{"the same from a busy receiver", 503, "120", 1, 2 * time.Minute},
		{"space around it", 503, " 120 ", 1, 2 * time.Minute},
		{"seconds that are sooner than the rung", 429, "3", 1, 15 * time.Second},
		{"no time at all", 429, "0", 1, 15 * time.Second},
		{"a date", 429, at(time.Hour, imf), 1, time.Hour},
		{"a date as of old", 429, at(time.Hour, rfc850), 1, time.Hour},
		{"a date as C prints it", 429, at(time.Hour, asctime), 1, time.Hour},
		{"a date that has passed", 429, at(-time.Hour, imf), 1, 15 * time.Second},
		{"more than a day", 429, "86401", 1, 24 * time.Hour},
		{"more seconds than a number holds", 429, "99999999999999999999999", 1, 24 * time.Hour},
		{"more seconds than a duration holds", 429, "9223372036854775807", 1, 24 * time.Hour},
		{"a date next year", 429, at(9000*time.Hour, imf), 1, 24 * time.Hour},
		{"a rung of more than a day stands", 429, "9999999", 3, 25 * time.Hour},
		{"a negative number", 429, "-120", 1, 15 * time.Second},
		{"a sign", 429, "+120", 1, 15 * time.Second},
		{"a fraction", 429, "120.5", 1, 15 * time.Second},
		{"rubbish", 429, "soon", 1, 15 * time.Second},
		{"nothing", 429, "", 1, 15 * time.Second},
		{"a status that may not ask for it", 500, "120", 1, 15 * time.Second},
		{"a redirect that asks for it", 301, "120", 1, 15 * time.Second},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCase(t, dispatcher.Answer{Status: tc.status, RetryAfter: tc.header})
			c.Rung = tc.rung
			o := dispatcher.Judge(c)
			require.Equal(t, dispatcher.Retry, o.Verdict)
			require.Equal(t, tc.want, o.Wait)
		})
	}
	c := newTestCase(t, dispatcher.Answer{Status: 429, RetryAfter: "120"})
	c.ExpiresAt = judgedAt.Add(time.Minute)
	require.Equal(t, dispatcher.ReasonExpired, dispatcher.Judge(c).Reason, "what is asked for comes after the expiry")
	c = newTestCase(t, dispatcher.Answer{Status: 429, RetryAfter: "120"})
	c.Rung = 4
	require.Equal(t, dispatcher.ReasonExhausted, dispatcher.Judge(c).Reason, "it adds no rung")
}

// A receiver whose clock is wrong, or a store whose clock is, makes no delivery wait longer.
func TestARetryAfterDateIsReckonedFromTheAnswersOwnDate(t *testing.T) {
	const imf = "Mon, 02 Jan 2006 15:04:05 GMT"
	theirs := judgedAt.Add(time.Hour)
	for date, want := range map[string]time.Duration{
		theirs.Format(imf):                   30 * time.Second,
		judgedAt.Add(-time.Hour).Format(imf): 2*time.Hour + 30*time.Second,
		"":                                   time.Hour + 30*time.Second,
		"rubbish":                            time.Hour + 30*time.Second,
	} {
		c := newTestCase(t, dispatcher.Answer{Status: 503, Date: date, RetryAfter: theirs.Add(30 * time.Second).Format(imf)})
		require.Equal(t, want, dispatcher.Judge(c).Wait, date)
		c.Answer.RetryAfter = "40"
		require.Equal(t, 40*time.Second, dispatcher.Judge(c).Wait, "seconds need no clock")
	}
}

func TestExcerptIsTheHeadOfTheAnswer(t *testing.T) {
	body := []byte("0123456789")
	require.Equal(t, "0123", string(dispatcher.Excerpt(body, 4, nil)))
	require.Equal(t, "0123456789", string(dispatcher.Excerpt(body, 10, nil)))
	require.Equal(t, "0123456789", string(dispatcher.Excerpt(body, 1000, []string{"", "v1,", "1"})))
	require.Nil(t, dispatcher.Excerpt(body, 0, nil))
	require.Nil(t, dispatcher.Excerpt(nil, 10, nil))
	kept := dispatcher.Excerpt(body, 4, nil)
	body[0] = 'x'
	require.Equal(t, "0123", string(kept), "the answer's own bytes are not held")
}

func TestExcerptMasksOurOwnSignatures(t *testing.T) {
	const one, two = "K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=", "6X+5Lq0aTgbE/Pz1uXo3CtzvF3jVQXl2uFp0xkQ8ZyM="
	own := []string{"v1," + one + " v1," + two}
	cases := []struct{ name, body, want string }{
		{"as it was sent", "got v1," + one + " v1," + two + ".", "got v1,[signature] v1,[signature]."},
		{"without its prefix", one, "[signature]"},
		{"in JSON with slashes escaped", strings.ReplaceAll(one, "/", `\/`), "[signature]"},
		{"in JSON with signs escaped", strings.NewReplacer("/", `\u002f`, "=", `\u003D`).Replace(one), "[signature]"},
		{"in a URL", strings.NewReplacer("/", "%2F", "=", "%3d", "+", "%2B").Replace(two), "[signature]"},
		{"in HTML", strings.NewReplacer("+", "&#43;", "=", "&#x3d;").Replace(two) + "!", "[signature]!"},
		{"cut by the end of the answer", "got " + one[:20], "got [signature]"},
		{"cut inside an escape", "got " + strings.ReplaceAll(two[:16], "/", "%2F"), "got [signature]"},
		{"another of its kind", strings.ToLower(one), strings.ToLower(one)},
		{"its beginning in the middle of the answer", one[:12] + " and so on", one[:12] + " and so on"},
		{"bytes that are no text", "\xff\x00" + one + "\xfe", "\xff\x00[signature]\xfe"},
		{"escapes that are none", `%zz \u00 &#; & % \`, `%zz \u00 &#; & % \`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, string(dispatcher.Excerpt([]byte(tc.body), 1024, own)))
		})
	}
	for n := range 80 {
		got := string(dispatcher.Excerpt([]byte("got v1,"+one+", thanks"), n, own))
		require.LessOrEqual(t, len(got), n)
		require.NotContains(t, got, "K5oZ", "where the excerpt ends inside the signature: %d", n)
	}
}

func TestExcerptMasksTheSignaturesOfEachScheme(t *testing.T) {
	body := []byte(`{"amount":4200}`)
	for _, scheme := range signer.Schemes() {
		t.Run(scheme.String(), func(t *testing.T) {
			sign, err := scheme.NewSigner(scheme.NewSecret())
			require.NoError(t, err)
			own := sign.Sign("msg_1", judgedAt, body)
			got := string(dispatcher.Excerpt([]byte("you sent "+own+"!"), 1024, []string{own}))
			require.Contains(t, got, "[signature]")
			for _, part := range strings.FieldsFunc(own, func(r rune) bool { return strings.ContainsRune(" ,=", r) }) {
				if len(part) > 20 { // all but names and times
					require.NotContains(t, got, part)
					require.Equal(t, "[signature]", string(dispatcher.Excerpt([]byte(part), 1024, []string{own})), "without what stands before it")
				}
			}
			require.Contains(t, got, "you sent ")
		})
	}
}

func TestExcerptMasksTheLongestOfSecretsThatBeginAlike(t *testing.T) {
	own := []string{"abcdefgh", "abcdefghij", "abcdefghijklmnopqrstuvwxyz,abcdefghijklmnopqrst0123456789"}
	for body, want := range map[string]string{
		"abcdefgh":                           "[signature]",
		"abcdefgh!":                          "[signature]!",
		"abcdefghi!":                         "[signature]i!",
		"abcdefghij!":                        "[signature]!",
		"abcdefghijklmno!":                   "[signature]klmno!", // too little of the longer ones, all of a shorter one
		"abcdefghijklmnop!":                  "[signature]!",
		"abcdefghijklmnopqrst012345!":        "[signature]!",
		"abcdefghijklmnopqrst0123456789!":    "[signature]!",
		"abcdefghijklmnopqrstuvwxyzabcdefg":  "[signature]abcdefg",
		"abcdefghijklmnopqrstuvwxyzabcdefgh": "[signature][signature]",
	} {
		require.Equal(t, want, string(dispatcher.Excerpt([]byte(body), 1024, own)), body)
	}
}

// What an answer costs to mask does not grow with the secrets that it nearly
// repeats: the time is for the benchmark, here it only ends.
func TestExcerptOfAnAnswerThatNearlyRepeatsASecretEnds(t *testing.T) {
	for name, own := range nearSecrets() {
		t.Run(name, func(t *testing.T) {
			body := []byte(strings.Repeat("a", dispatcher.AnswerLimit))
			got := dispatcher.Excerpt(body, dispatcher.AnswerLimit, own)
			require.Less(t, len(got), len(body))
		})
	}
}

func nearSecrets() map[string][]string {
	many := make([]string, 900)
	for i := range many {
		many[i] = strings.Repeat("a", 12) + strconv.Itoa(1000+i)
	}
	return map[string][]string{
		"long": {strings.Repeat("a", 8000) + "b"},
		"many": append(many, strings.Repeat("a", 300)),
	}
}

func BenchmarkExcerpt(b *testing.B) {
	for name, own := range nearSecrets() {
		for fill, body := range map[string]string{"near": strings.Repeat("a", 15) + "!", "escaped": "&#97;&#97;&#97;&#97;&#97;&#97;&#97;!"} {
			b.Run(name+"/"+fill, func(b *testing.B) {
				answer := []byte(strings.Repeat(body, dispatcher.AnswerLimit/len(body)))
				for b.Loop() {
					dispatcher.Excerpt(answer, dispatcher.AnswerLimit, own)
				}
			})
		}
	}
}

// FuzzExcerpt: no answer makes it fail, give more than asked for, or give the
// signature.
func FuzzExcerpt(f *testing.F) {
	f.Add([]byte(`{"a":"v1,c2lnbmF0dXJlIQ=="}`), 100)
	f.Add([]byte(`c2lnbmF0dXJlIQ%3d&#61;\u003`), 20)
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		const own = "c2lnbmF0dXJlIQ=="
		got := dispatcher.Excerpt(body, n, []string{"v1," + own})
		require.LessOrEqual(t, len(got), max(n, 0))
		require.NotContains(t, string(got), own)
	})
}

func BenchmarkJudge(b *testing.B) {
	word, err := success.Parse(`{"body":"success"}`)
	require.NoError(b, err)
	path, err := success.Parse(`{"body":{"path":"code","equals":"SUCCESS"}}`)
	require.NoError(b, err)
	answer := []byte(`{"code":"SUCCESS","message":"` + strings.Repeat("x", 200) + `"}`)
	for name, c := range map[string]struct {
		answer  dispatcher.Answer
		success *success.Rule
		want    dispatcher.Verdict
	}{
		"200":                       {dispatcher.Answer{Status: 200}, nil, dispatcher.Delivered},
		"500 with Retry-After":      {dispatcher.Answer{Status: 500, RetryAfter: "120"}, nil, dispatcher.Retry},
		"503 with Retry-After":      {dispatcher.Answer{Status: 503, RetryAfter: "120"}, nil, dispatcher.Retry},
		"200 with the word":         {dispatcher.Answer{Status: 200, Body: []byte("success\n")}, word, dispatcher.Delivered},
		"200 with a member":         {dispatcher.Answer{Status: 200, Body: answer}, path, dispatcher.Delivered},
		"200 without what is asked": {dispatcher.Answer{Status: 200, Body: answer}, word, dispatcher.Retry},
	} {
		judged := newTestCase(b, c.answer)
		judged.Success = c.success
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if o := dispatcher.Judge(judged); o.Verdict != c.want {
					b.Fatal(o)
				}
			}
		})
	}
}

func TestALaneFailsByWhatItsReceiverDoes(t *testing.T) {
	for name, c := range map[string]struct {
		answer dispatcher.Answer
		fails  bool
	}{
		"a success":               {dispatcher.Answer{Status: 200}, false},
		"a 500":                   {dispatcher.Answer{Status: 500}, true},
		"a 404":                   {dispatcher.Answer{Status: 404}, true},
		"a redirect":              {dispatcher.Answer{Status: 301}, true},
		"a 503 that asks to wait": {dispatcher.Answer{Status: 503, RetryAfter: "60"}, true},
		"a 429":                   {dispatcher.Answer{Status: 429}, false},
		"a rejected delivery":     {dispatcher.Answer{Status: 500, Rejected: true}, false},
		"no answer":               {dispatcher.Answer{Class: dispatcher.ClassTimeout}, true},
		"an unknown name":         {dispatcher.Answer{Class: dispatcher.ClassDNS}, true},
		"a fault of ours":         {dispatcher.Answer{Class: dispatcher.ClassInternal}, false},
		"an address we refuse":    {dispatcher.Answer{Class: dispatcher.ClassRefused}, false},
		"an expired one":          {dispatcher.Answer{Class: dispatcher.ClassExpired}, false},
	} {
		require.Equal(t, c.fails, dispatcher.Judge(newTestCase(t, c.answer)).Fails, name)
	}
}

// What an answer means for its lane.

func TestOnlyTroubleOfTheReceiverIsBlamed(t *testing.T) {
	classes := map[dispatcher.Class]bool{
		dispatcher.ClassNone:    false, // a sender that says nothing: our own fault
		dispatcher.ClassTimeout: true, dispatcher.ClassConnect: true, dispatcher.ClassReset: true, dispatcher.ClassTLS: true,
		dispatcher.ClassDNS: true, dispatcher.ClassProtocol: true,
		dispatcher.ClassRefused: false, dispatcher.ClassExpired: false, dispatcher.ClassInternal: false,
		dispatcher.ClassLease: false, dispatcher.ClassHandler: false, dispatcher.ClassEgress: false,
		dispatcher.ClassStatus: false, dispatcher.ClassBody: false, // by the status, see below
	}
	require.ElementsMatch(t, append(dispatcher.Classes(), dispatcher.ClassNone), slices.Collect(maps.Keys(classes)))
	for class, want := range classes {
		t.Run("no answer, class "+string(class), func(t *testing.T) {
			o := dispatcher.Judge(newTestCase(t, dispatcher.Answer{Class: class, Err: errors.New("no")}))
			require.Equal(t, want, o.Blame)
			require.NotEqual(t, dispatcher.Delivered, o.Verdict)
		})
	}
	statuses := []struct {
		status  int
		success string
		body    string
		want    bool
	}{
		{status: 200}, {status: 204}, {status: 101}, {status: 302}, {status: 400}, {status: 401}, {status: 404}, {status: 408},
		{status: 410}, {status: 429}, {status: 499},
		{status: 500, want: true}, {status: 502, want: true}, {status: 503, want: true}, {status: 599, want: true}, {status: 799, want: true},
		{status: 500, success: "*"},
		{status: 200, success: "204"},
		{status: 200, success: `{"body":"success"}`, body: "fail"},
		{status: 404, success: `{"status":["*"],"body":"success"}`, body: "not found"},
		{status: 502, success: `{"status":["*"],"body":"success"}`, body: "<h1>Bad Gateway</h1>", want: true},
		{status: 502, success: `{"status":["*"],"body":"success"}`, body: "success"},
	}
	for _, s := range statuses {
		t.Run(fmt.Sprintf("status %d of %q with %q", s.status, s.success, s.body), func(t *testing.T) {
			c := newTestCase(t, dispatcher.Answer{Status: s.status, Body: []byte(s.body)})
			if s.success != "" {
				c.Success = mustRule(t, s.success)
			}
			for c.Rung = 1; c.Rung <= 4; c.Rung++ { // also where no rung is left
				require.Equal(t, s.want, dispatcher.Judge(c).Blame)
			}
		})
	}
}

func TestALaneIsPausedByWhatAReceiverMayAskFor(t *testing.T) {
	cases := []struct {
		name    string
		status  int
		header  string
		success string
		want    time.Duration
	}{
		{"too many requests", 429, "120", "", 2 * time.Minute},
		{"unavailable", 503, "7", "", 7 * time.Second},
		{"a date", 429, judgedAt.Add(time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"), "", time.Hour},
		{"more than a day", 503, "9999999", "", 24 * time.Hour},
		{"nothing asked for", 429, "", "", 0},
		{"rubbish", 503, "soon", "", 0},
		{"a date that has passed", 429, judgedAt.Add(-time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"), "", 0},
		{"another failure", 500, "120", "", 0},
		{"gone", 410, "120", "", 0},
		{"a redirect", 301, "120", "", 0},
		{"a success", 200, "120", "", 0},
		{"a success by that status", 429, "120", "*", 0},
		{"that status with another body than asked for", 503, "120", `{"status":["*"],"body":"success"}`, 2 * time.Minute},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCase(t, dispatcher.Answer{Status: tc.status, RetryAfter: tc.header})
			if tc.success != "" {
				c.Success = mustRule(t, tc.success)
			}
			require.Equal(t, tc.want, dispatcher.Judge(c).Pause)
			c.Rung = 4
			require.Equal(t, tc.want, dispatcher.Judge(c).Pause, "also on the last rung: its lane has others")
		})
	}
}
