package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
)

// benchService costs next to nothing, so that the handler is measured.
type benchService struct {
	answers []dispatcher.Published
}

// withBench has messages taken by a benchService.
func withBench(o *httpapi.Options) { o.Publisher = &benchService{} }

func (f *benchService) Publish(_ context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error) {
	for n := len(f.answers); n < len(batch); n++ {
		f.answers = append(f.answers, Accepted(batch[n]))
	}
	return f.answers[:len(batch)], nil
}

// benchCaller sends one request again and again, and keeps nothing of what is
// answered but the status.
type benchCaller struct {
	r      *http.Request
	body   *strings.Reader
	text   string
	header http.Header
	status int
}

func newBenchCaller(path, text string) *benchCaller {
	c := &benchCaller{r: newTestRequest("POST", path, text), body: strings.NewReader(text), text: text, header: http.Header{}}
	c.r.Header.Set("Authorization", "Bearer "+PublishKey)
	c.r.Body = io.NopCloser(c.body)
	return c
}

func (c *benchCaller) call(h http.Handler) {
	c.body.Reset(c.text)
	clear(c.header)
	h.ServeHTTP(c, c.r)
}

func (c *benchCaller) Header() http.Header         { return c.header }
func (c *benchCaller) WriteHeader(status int)      { c.status = status }
func (c *benchCaller) Write(b []byte) (int, error) { return len(b), nil }

// What the API adds to a publish, from the request to its answer, without what
// net/http and the queue do: bodies of 1 KiB, alone and a hundred at once.
func BenchmarkPublish(b *testing.B) {
	nested := `{"rows":[` + strings.TrimSuffix(strings.Repeat(`{"id":12345,"name":"abc","ok":true,"of":[1,2]},`, 21), ",") + `]}`
	for name, body := range map[string]string{"text": `{"text":"` + strings.Repeat("x", 1000) + `"}`, "nested": nested} {
		var batch []string
		for i := range 100 {
			batch = append(batch, Message(`"body":`+body+`,"id":"msg_`+strconv.Itoa(i)+`"`))
		}
		for kind, c := range map[string]*benchCaller{
			"single": newBenchCaller("/v1/messages", batch[0]),
			"no id":  newBenchCaller("/v1/messages", Message(`"body":`+body)),
			"batch":  newBenchCaller("/v1/messages/batch", `{"messages":[`+strings.Join(batch, ",")+`]}`),
		} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				h := newTestAPI(b, &Fake{}, withBench, WithKeys(b, Keys()))
				b.ReportAllocs()
				for b.Loop() {
					c.call(h)
				}
				require.Equal(b, http.StatusAccepted, c.status)
			})
		}
	}
}
