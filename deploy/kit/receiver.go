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
	At      time.Time // when the request arrived
	ID      string    // of its message
	Path    string
	Attempt int
	Body    []byte // nil if Err is not
	Err     error  // the signature is wrong, or the request could not be read
}

// Receiver is a receiver of callbacks from a dispatcher. It verifies each callback
// and passes it to Take, which writes the response.
type Receiver struct {
	Take func(w http.ResponseWriter, r *http.Request, c Callback)

	usual *signer.Verifier
	http  http.Server
	port  int

	mu    sync.Mutex // guards paths
	paths map[string]*signer.Verifier
}

// NewReceiver makes a receiver with a default verifier. Trust sets another verifier
// for a path.
func NewReceiver(usual *signer.Verifier, take func(http.ResponseWriter, *http.Request, Callback)) *Receiver {
	return &Receiver{Take: take, usual: usual, paths: map[string]*signer.Verifier{}}
}

// Trust sets the verifier for a path.
func (r *Receiver) Trust(path string, v *signer.Verifier) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths[path] = v
}

// verifier returns the verifier for a path.
func (r *Receiver) verifier(path string) *signer.Verifier {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.paths[path]; v != nil {
		return v
	}
	return r.usual
}

// ServeHTTP verifies one callback and passes it to Take.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c := Callback{At: time.Now(), ID: req.Header.Get(signer.HeaderID), Path: req.URL.Path}
	c.Attempt, _ = strconv.Atoi(req.Header.Get("Hookladder-Attempt")) // 0 if the header is missing
	c.Body, c.Err = r.verifier(c.Path).VerifyRequest(req)
	r.Take(w, req, c)
}

// Listen accepts connections on one free port at every address of this host until
// Close. Each 127.0.1.x is a destination of its own. change may configure the server
// and may be nil. The port is none of those that the system gives, because callers of an
// instance that was killed go on calling the port that it had.
func (r *Receiver) Listen(change func(*http.Server)) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp4", ":"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("listen for callbacks: %w", err)
	}
	r.port = port
	r.http = http.Server{Handler: r, ReadHeaderTimeout: Patience}
	if change != nil {
		change(&r.http)
	}
	go func() { _ = r.http.Serve(ln) }() // returns at Close
	return nil
}

// URL returns the URL of a destination: 0 is 127.0.0.1, and each other number has an
// address of its own.
func (r *Receiver) URL(n int) string {
	return fmt.Sprintf("http://127.0.%d.%d:%d", (n+249)/250, max(n-1, 0)%250+1, r.port)
}

// Close closes all connections.
func (r *Receiver) Close() error {
	if err := r.http.Close(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
