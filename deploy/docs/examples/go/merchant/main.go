// Command merchant receives the callbacks of the shop. It accepts only callbacks with a
// valid signature, and handles each message once.
//
//	WEBHOOK_SECRET=whsec_... go run ./deploy/docs/examples/go/merchant
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/hookladder/hookladder/signer"
)

func main() {
	// During a rotation the variable has the new and the old secret, with a space between.
	secrets, err := signer.ParseSecrets(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	verifier := &signer.Verifier{Secrets: secrets}
	mux := http.NewServeMux()
	mux.Handle("POST /hooks", verifier.Middleware(&orderBook{known: map[string]bool{}}))
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:9000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}

// orderBook handles callbacks whose signature is valid.
type orderBook struct {
	mu    sync.Mutex
	known map[string]bool // ids of handled messages; a real merchant has a table with a unique key
}

func (b *orderBook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event struct{ Order, State string }
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // it is retried, and ends as dead
		return
	}
	id := r.Header.Get(signer.HeaderID)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[id] {
		w.WriteHeader(http.StatusNoContent) // a repeat is a success
		return
	}
	b.known[id] = true
	fmt.Printf("order %s is %s (%s)\n", event.Order, event.State, id)
	w.WriteHeader(http.StatusNoContent)
}
