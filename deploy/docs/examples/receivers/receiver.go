package main

import (
	"log"
	"net/http"
	"os"

	"github.com/hookladder/hookladder/signer"
)

func main() {
	secrets, err := signer.ParseSecrets(os.Getenv("WEBHOOK_SECRET")) // whsec_...
	if err != nil {
		log.Fatal(err)
	}
	verifier := &signer.Verifier{Secrets: secrets}
	http.Handle("POST /hooks", verifier.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Println("genuine:", r.Header.Get(signer.HeaderID))
		w.WriteHeader(http.StatusNoContent)
	})))
	log.Fatal(http.ListenAndServe("127.0.0.1:9000", nil))
}
