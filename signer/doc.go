// Package signer tells who sent a webhook. It signs and verifies HTTP callbacks
// as Standard Webhooks describes them (version v1: HMAC-SHA256 with a shared
// secret), and imports nothing but the standard library.
//
// # To receive
//
// Wrap the handler. What reaches it was signed by who knows the secret, no more
// than five minutes ago, and its body is there to be read:
//
//	secrets, err := signer.ParseSecrets(os.Getenv("WEBHOOK_SECRET"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	verifier := &signer.Verifier{Secrets: secrets}
//	http.Handle("POST /webhooks", verifier.Middleware(handler))
//
// A delivery may come more than once: after an answer that got lost, the sender
// can't know that it arrived. Every repeat has the same webhook-id, so keep the
// ids of what was processed and answer a repeat with 200. A router that reads the
// body before the middleware does must hand on the bytes as they came; parsed and
// written anew they are others.
//
// To exchange a secret without losing a delivery, give the receiver the new one
// beside the old (separated by a space), then let the sender use it, then take
// the old one away.
//
// # To send
//
//	secret := signer.NewSecret()
//	s, err := signer.NewSigner(secret)
//	at := time.Now()
//	r.Header.Set(signer.HeaderID, id)
//	r.Header.Set(signer.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
//	r.Header.Set(signer.HeaderSignature, s.Sign(id, at, body))
//
// # What is signed
//
// The bytes of id.timestamp.body: the header webhook-id, a dot, the header
// webhook-timestamp, a dot, and the body. The header webhook-signature is a list
// with spaces between, of v1 signatures (v1, and the base64 of the HMAC) and of
// others, which are passed over. The folder testdata has vectors that an
// implementation in any language can be tested with.
package signer
