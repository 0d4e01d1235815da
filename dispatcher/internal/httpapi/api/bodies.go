package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/hookladder/hookladder/dispatcher/internal/input"
)

const (
	// FirstBody is the size of a request's buffer before its body arrives, regardless of the
	// announced length. Most bodies fit. It does not count against the budget, because the
	// number of connections limits it.
	FirstBody = 16 << 10
	// keptBuffer is the largest buffer that is kept for another request, so that a few large
	// bodies do not occupy memory for ever.
	keptBuffer = 256 << 10
	// BodyBytes is the default budget for larger bodies: sixteen of the largest batches. In
	// the engine and on the way to the store a body takes two or three times its size in
	// addition.
	BodyBytes = 64 << 20
)

// Buffers have a pool for each size, so that a small request never occupies a large buffer.
var (
	smallBuffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, FirstBody+bytes.MinRead)) }}
	largeBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// Bodies is the budget of the process for the bodies of requests.
type Bodies struct {
	most   int64
	all    *semaphore.Weighted
	shares sync.Map // by a key's name: its *semaphore.Weighted
}

// NewBodies returns a budget of some bytes.
func NewBodies(most int64) *Bodies {
	return &Bodies{most: most, all: semaphore.NewWeighted(most)}
}

// Most returns the size of the budget.
func (b *Bodies) Most() int64 { return b.most }

// ErrNoRoom reports that the budget is used up.
var ErrNoRoom = errors.New("no room for the body")

// Form parses the form that a request has as its body, of at most most bytes. What is longer than
// FirstBody takes from the budget as it arrives, and from the share of a name, until release.
func (b *Bodies) Form(w http.ResponseWriter, r *http.Request, share string, most int64) (release func(), err error) {
	h := Reservation{From: b, Own: b.Share(share, 2)}
	buf, err := receive(http.MaxBytesReader(w, r.Body, most), &h, most)
	if err == nil {
		r.Body = io.NopCloser(buf)
		err = r.ParseForm()
	}
	Release(buf)
	return h.End, err
}

// Share returns the part of the budget that one of n keys may use, which is half of it. It
// returns nil if there is only one key, because that key may use the whole budget.
func (b *Bodies) Share(name string, keys int) *semaphore.Weighted {
	if keys < 2 {
		return nil
	}
	share, ok := b.shares.Load(name)
	if !ok {
		share, _ = b.shares.LoadOrStore(name, semaphore.NewWeighted(b.most/2))
	}
	return share.(*semaphore.Weighted)
}

// Reservation is the part of the budget that one request has reserved.
type Reservation struct {
	From *Bodies
	Own  *semaphore.Weighted // its key's share; nil: the whole budget
	n    int64
}

// take reserves n more bytes, and reports whether they are free.
func (h *Reservation) take(n int64) bool {
	switch {
	case !h.From.all.TryAcquire(n):
		return false
	case h.Own != nil && !h.Own.TryAcquire(n):
		h.From.all.Release(n)
		return false
	}
	h.n += n
	return true
}

// End releases everything that was reserved.
func (h *Reservation) End() {
	if h.n == 0 {
		return
	}
	h.From.all.Release(h.n)
	if h.Own != nil {
		h.Own.Release(h.n)
	}
	h.n = 0
}

// Borrow takes an empty buffer with room for n bytes from a pool.
func Borrow(n int) *bytes.Buffer {
	pool := &smallBuffers
	if n > FirstBody {
		pool = &largeBuffers
	}
	buf := pool.Get().(*bytes.Buffer)
	buf.Reset()
	buf.Grow(n)
	return buf
}

// Release returns a buffer to its pool.
func Release(buf *bytes.Buffer) {
	switch n := buf.Cap(); {
	case n < FirstBody || n > keptBuffer:
	case n <= FirstBody+bytes.MinRead+FirstBody/8: // the allocator rounds up
		smallBuffers.Put(buf)
	default:
		largeBuffers.Put(buf)
	}
}

// receive reads a body of at most n bytes into a buffer that grows as bytes arrive. The caller
// releases the buffer, also after an error.
func receive(body io.Reader, h *Reservation, most int64) (*bytes.Buffer, error) {
	buf := Borrow(FirstBody)
	for {
		if buf.Available() < bytes.MinRead {
			larger, ok := grow(buf, h, most)
			if !ok {
				return buf, ErrNoRoom
			}
			buf = larger
		}
		room := buf.AvailableBuffer()
		n, err := body.Read(room[:cap(room)])
		_, _ = buf.Write(room[:n])
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}

// grow doubles a buffer, up to the maximum size of this body. It takes the larger buffer from
// the budget.
func grow(buf *bytes.Buffer, h *Reservation, most int64) (larger *bytes.Buffer, ok bool) {
	size := max(min(2*buf.Cap(), int(most)+bytes.MinRead), buf.Cap()+bytes.MinRead)
	larger = largeBuffers.Get().(*bytes.Buffer)
	larger.Reset()
	if !h.take(int64(max(size, larger.Cap())) - h.n) {
		largeBuffers.Put(larger)
		return buf, false
	}
	if larger.Cap() < size { // its Grow could double it, to more than was taken
		largeBuffers.Put(larger)
		larger = bytes.NewBuffer(make([]byte, 0, size))
	}
	_, _ = larger.Write(buf.Bytes())
	Release(buf)
	return larger, true
}

// Decode reads the body of a request.
func Decode[T any](q *Request, read func(d *Decoder) T) (v T, err error) {
	buf, err := q.receive()
	if err != nil {
		return v, err
	}
	defer Release(buf)
	d := decoders.Get().(*Decoder)
	defer decoders.Put(d)
	d.Reset(buf)
	v = read(d)
	d.End()
	return v, MalformedJSON(d.Err)
}

// receive reads the body into a buffer. The caller returns it with release.
func (q *Request) receive() (*bytes.Buffer, error) {
	if err := checkMedia(q.HTTP.Header, q.Operation.Media); err != nil {
		return nil, err
	}
	body, most := q.HTTP.Body, q.HTTP.ContentLength
	switch {
	case most > q.Operation.Limit:
		return nil, q.tooLarge()
	case most < 0: // else the server gives no more than was announced
		most = q.Operation.Limit
		body = http.MaxBytesReader(q.Writer, body, most)
	}
	buf, err := receive(body, &q.Writer.Reserved, most)
	if err == nil {
		_ = body.Close() // so that the server need not look whether something is left
		return buf, nil
	}
	Release(buf)
	var tooMany *http.MaxBytesError
	var network net.Error
	switch {
	case err == ErrNoRoom:
		return nil, &Problem{Kind: Crowded, Detail: "nothing was changed; send it again in a moment, or in smaller batches"}
	case errors.As(err, &tooMany):
		return nil, q.tooLarge()
	case errors.As(err, &network) && network.Timeout():
		return nil, &Problem{Kind: tooSlow}
	default:
		return nil, errCutShort
	}
}

func (q *Request) tooLarge() *Problem {
	return &Problem{Kind: TooLarge, Detail: "the request has more than " + strconv.FormatInt(q.Operation.Limit, 10) + " bytes" + q.Operation.Cure}
}

const sendJSON = "Content-Type: " + MediaJSON

// checkMedia accepts uncompressed JSON in UTF-8, with its media type or with another one that
// is accepted for it.
func checkMedia(h http.Header, other string) error {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &Problem{Kind: BadMedia, Detail: "a content encoding is not accepted: send the body uncompressed"}
	}
	given := h["Content-Type"]
	if len(given) == 1 && given[0] == MediaJSON {
		return nil
	}
	if len(given) != 1 {
		return &Problem{Kind: BadMedia, Detail: "send one header: " + sendJSON}
	}
	media, params, err := mime.ParseMediaType(given[0])
	if err != nil || media != MediaJSON && media != other {
		return &Problem{Kind: BadMedia, Detail: "it is " + input.Clip(given[0]) + "; send the header " + sendJSON}
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return &Problem{Kind: BadMedia, Detail: "JSON is UTF-8: no other charset is accepted"}
	}
	return nil
}
