package httpapi

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// firstBody is the room that a request gets before anything of its body has
	// come, whatever it announces. Most bodies fit. It is free: what bounds all
	// of it is the number of connections.
	firstBody = 16 << 10
	// keptBuffer is the largest buffer that is kept for the next request: a few
	// large ones must not hold memory for ever.
	keptBuffer = 256 << 10
	// bodyBytes is what larger bodies may take at once, where Options do not say:
	// sixteen of the largest batches. In the engine and on the way to the store
	// a body takes its size two or three times more.
	bodyBytes = 64 << 20
)

// Buffers are kept apart by size, so that what has sent little never holds a
// large one.
var (
	smallBuffers = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, firstBody+bytes.MinRead)) }}
	largeBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// bodies is the budget of the process for the bodies of requests.
type bodies struct {
	most   int64
	all    *semaphore.Weighted
	shares sync.Map // by the name of a key: *semaphore.Weighted
}

func newBodies(most int64) *bodies {
	return &bodies{most: most, all: semaphore.NewWeighted(most)}
}

// share is what one of so many keys may take: of several, none can take all of
// the budget; nil: there is but one.
func (b *bodies) share(name string, keys int) *semaphore.Weighted {
	if keys < 2 {
		return nil
	}
	share, ok := b.shares.Load(name)
	if !ok {
		share, _ = b.shares.LoadOrStore(name, semaphore.NewWeighted(b.most/2))
	}
	return share.(*semaphore.Weighted)
}

// held is what one request has of the budget.
type held struct {
	from *bodies
	own  *semaphore.Weighted // its key's share; nil: there is none
	n    int64
}

// take takes n bytes more, if they are to be had now.
func (h *held) take(n int64) bool {
	switch {
	case h.from == nil: // nobody counts
		return true
	case !h.from.all.TryAcquire(n):
		return false
	case h.own != nil && !h.own.TryAcquire(n):
		h.from.all.Release(n)
		return false
	}
	h.n += n
	return true
}

// end gives all back.
func (h *held) end() {
	if h.n == 0 {
		return
	}
	h.from.all.Release(h.n)
	if h.own != nil {
		h.own.Release(h.n)
	}
	h.n = 0
}

// borrow is an empty buffer with room for n bytes.
func borrow(n int) *bytes.Buffer {
	pool := &smallBuffers
	if n > firstBody {
		pool = &largeBuffers
	}
	buf := pool.Get().(*bytes.Buffer)
	buf.Reset()
	buf.Grow(n)
	return buf
}

func release(buf *bytes.Buffer) {
	switch n := buf.Cap(); {
	case n < firstBody || n > keptBuffer:
	case n <= firstBody+bytes.MinRead+firstBody/8: // as the allocator rounds it up
		smallBuffers.Put(buf)
	default:
		largeBuffers.Put(buf)
	}
}

// errNoRoom says that the budget is used up.
var errNoRoom = errors.New("no room for the body")

// receive reads a body of at most so many bytes into a buffer that grows by what
// came. The buffer is the caller's, also with an error.
func receive(body io.Reader, h *held, most int64) (*bytes.Buffer, error) {
	buf := borrow(firstBody)
	for {
		if buf.Available() < bytes.MinRead {
			larger, ok := grow(buf, h, most)
			if !ok {
				return buf, errNoRoom
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

// grow doubles a buffer, or makes it as large as it will ever have to be, and
// pays for the larger one.
func grow(buf *bytes.Buffer, h *held, most int64) (larger *bytes.Buffer, ok bool) {
	size := max(min(2*buf.Cap(), int(most)+bytes.MinRead), buf.Cap()+bytes.MinRead)
	larger = largeBuffers.Get().(*bytes.Buffer)
	larger.Reset()
	if !h.take(int64(max(size, larger.Cap())) - h.n) {
		largeBuffers.Put(larger)
		return buf, false
	}
	larger.Grow(size)
	_, _ = larger.Write(buf.Bytes())
	release(buf)
	return larger, true
}
