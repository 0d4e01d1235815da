package httpapi_test

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// benchService costs next to nothing, so that the handler is measured.
type benchService struct {
	fakeService
	answer [1]dispatcher.Published
}

func (f *benchService) Publish(_ context.Context, batch []*dispatcher.Message) ([]dispatcher.Published, error) {
	if f.answer[0].Deliveries == nil {
		f.answer[0] = accepted(batch[0])
	}
	return f.answer[:], nil
}

type nopCloser struct{ io.Reader }

func (nopCloser) Close() error { return nil }

func BenchmarkPublish(b *testing.B) {
	h := newTestAPI(b, &benchService{}, withKeys(b, testKeys()))
	for name, body := range map[string]string{
		"text":   message(`"body":{"text":"` + strings.Repeat("x", 1000) + `"},"id":"msg_1"`),
		"nested": message(`"body":{"rows":[` + strings.TrimSuffix(strings.Repeat(`{"id":12345,"name":"abc","ok":true,"of":[1,2]},`, 21), ",") + `]}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r := newRequest("POST", "/v1/messages", body)
			r.Header.Set("Authorization", "Bearer "+publishKey)
			reader := strings.NewReader(body)
			w := httptest.NewRecorder()
			for b.Loop() {
				reader.Reset(body)
				r.Body = nopCloser{reader}
				w.Body.Reset()
				h.ServeHTTP(w, r)
			}
			require.Equal(b, 202, w.Code, w.Body.String())
		})
	}
}
