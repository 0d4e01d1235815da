package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/browser/browsertest"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// hostile are texts that would do something if a page took them for HTML.
var hostile = []string{
	`"><script>window.hacked=1</script>`,
	`'><img/src=x/onerror=window.hacked=2>`,
	`</textarea></details></pre></script><svg/onload=window.hacked=3>`,
	`{{.Body}}<a/href=javascript:window.hacked=4>`,
}

// filters are parameters of pages.
var filters = []string{"q", "tenant", "topic", "subject", "destination", "status", "reason", "since", "until", "cursor", "outcome", "told", "by", "what"}

// made finds what a hostile text would have made of a page.
const made = `window.hacked !== undefined || document.querySelector("img[src=x], [onerror], [onload], a[href^=javascript], script:not([src])") !== null`

func TestNoTextIsTakenForHTML(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers(func(rw http.ResponseWriter, path string) bool {
		if path != "hostile" {
			return false
		}
		rw.Header().Set("Content-Type", "text/html")
		rw.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(rw, "<h1>answer</h1>"+fmt.Sprint(hostile)+"\u202egnp.exe")
		return true
	})
	var ids []string
	for n, text := range hostile {
		e := w.endpoint(wire.Endpoint{
			URL: w.at("hostile/" + url.PathEscape(text) + "?q=" + url.QueryEscape(text)), Tenant: text, Description: text + " " + text,
			Metadata: map[string]string{"shop" + text: text},
		})
		for _, body := range []struct {
			kind, text string
		}{
			{"json", fmt.Sprintf(`{%q: %q}`, text, text)}, {"text/html", text}, {"application/xml", "<a>" + text + "</a>"},
			{"application/x-www-form-urlencoded", "a=" + url.QueryEscape(text)},
		} {
			m := wire.Message{
				ID: fmt.Sprint("hostile_", n, "_", len(body.kind)), Endpoint: e, Tenant: text, Subject: text,
				Headers: map[string]string{"X-Note": text}, Ladder: short(t),
			}
			if body.kind == "json" {
				m.Body = []byte(body.text)
			} else {
				m.RawBody, m.ContentType = &body.text, body.kind
			}
			w.publish(m)
			ids = append(ids, m.ID)
		}
	}
	for _, id := range ids {
		w.until(id, "dead")
	}
	b := w.tab(t)
	harmless := func(where string) {
		t.Helper()
		require.False(t, browsertest.JS[bool](b, made), "%s: a text became HTML: %s", where, b.JSText("document.body.innerHTML"))
		require.Empty(t, b.Problems(), where)
	}
	crawl(t, b, w.page("/console/"), harmless)
	b.Allow("400", "404", "422") // a filter may be refused: it is shown even then
	for n, text := range hostile {
		for _, id := range []int{4, 9, 15, 33} {
			b.Open(w.page(fmt.Sprintf("/console/messages/hostile_%d_%d", n, id)))
			b.WaitFor(text)
			harmless("message")
		}
		for _, page := range []string{"deliveries", "endpoints", "dead", "tail", "system"} {
			q := url.Values{}
			for _, name := range filters {
				q.Set(name, text)
			}
			b.Try(w.page("/console/" + page + "?" + q.Encode()))
			harmless(page)
		}
		b.Try(w.page("/console/" + url.PathEscape(text)))
		harmless("a path")
	}
	for _, name := range filters { // alone: of several wrong ones the first is told of
		b.Try(w.page("/console/deliveries?" + url.Values{name: {strings.Join(hostile, "")}}.Encode()))
		harmless("deliveries?" + name)
	}
	b.Try(w.page("/console/messages/hostile_0_4"))
	require.NotContains(t, b.Text(), "\u202e", "it would turn the text round")
}
