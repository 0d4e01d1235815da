package kit

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// Callback is one request to a Receiver.
type Callback struct {
	At      time.Time // when it came
	ID      string    // of its message
	Path    string
	Attempt int
	Body    []byte // nil where Err is not
	Err     error  // it is not signed as it should be, or could not be read
}

// Receiver is the far side of a dispatcher. It verifies what comes and hands it
// to Take, which answers.
type Receiver struct {
	Take func(w http.ResponseWriter, r *http.Request, c Callback)

	usual *signer.Verifier
	http  http.Server
	port  int

	mu    sync.Mutex // guards paths
	paths map[string]*signer.Verifier
}

// NewReceiver makes a receiver that trusts the usual verifier, at all paths but
// those of Trust.
func NewReceiver(usual *signer.Verifier, take func(http.ResponseWriter, *http.Request, Callback)) *Receiver {
	return &Receiver{Take: take, usual: usual, paths: map[string]*signer.Verifier{}}
}

// Trust has another verifier judge what comes to a path.
func (r *Receiver) Trust(path string, v *signer.Verifier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths[path] = v
}

// verifier is the one for a path.
func (r *Receiver) verifier(path string) *signer.Verifier {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.paths[path]; v != nil {
		return v
	}
	return r.usual
}

// ServeHTTP takes one callback.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c := Callback{At: time.Now(), ID: req.Header.Get(signer.HeaderID), Path: req.URL.Path}
	c.Attempt, _ = strconv.Atoi(req.Header.Get("Hookladder-Attempt")) // 0 where there is none
	c.Body, c.Err = r.verifier(c.Path).VerifyRequest(req)
	r.Take(w, req, c)
}

// Listen takes connections at every address of this host, on one free port, until
// Close: 127.0.1.x are as many destinations. change may set the server up; nil:
// nothing.
func (r *Receiver) Listen(change func(*http.Server)) error {
	ln, err := net.Listen("tcp4", ":0")
	if err != nil {
		return fmt.Errorf("listen for callbacks: %w", err)
	}
	r.port = ln.Addr().(*net.TCPAddr).Port
	r.http = http.Server{Handler: r, ReadHeaderTimeout: Patience}
	if change != nil {
		change(&r.http)
	}
	go func() { _ = r.http.Serve(ln) }() // ends at Close
	return nil
}

// URL is one of its destinations: 0 is 127.0.0.1, and each other number has an
// address of its own.
func (r *Receiver) URL(n int) string {
	return fmt.Sprintf("http://127.0.%d.%d:%d", (n+249)/250, max(n-1, 0)%250+1, r.port)
}

// Close ends all connections.
func (r *Receiver) Close() error {
	if err := r.http.Close(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
