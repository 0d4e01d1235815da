// Package signer tells who sent a webhook. It signs and verifies HTTP callbacks
// as Standard Webhooks describes them, or as the libraries of others verify them,
// and imports nothing but the standard library.
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
//	r.Header.Set(s.Header(), s.Sign(id, at, body))
//
// # The schemes
//
// What a callback is signed with is agreed upon for each receiver. Everything
// above is Standard; for the others begin with Scheme.NewSecret, Scheme.NewSigner
// and Scheme.NewVerifier.
//
//	scheme            header               its value                          signed             key
//	standard          webhook-signature    v1,<base64 HMAC-SHA256> ...        id.timestamp.body  whsec_: the bytes of its base64
//	standard-ed25519  webhook-signature    v1a,<base64 Ed25519> ...           id.timestamp.body  whsk_ signs, whpk_ verifies
//	stripe            stripe-signature     t=<unix>,v1=<hex HMAC-SHA256>,...  timestamp.body     the text itself
//	github            x-hub-signature-256  sha256=<hex HMAC-SHA256>           body               the text itself
//	hmac-hex          x-signature          <hex HMAC-SHA256>                  body               the text itself
//
// Receivers by standard-ed25519 hold a public key, with which nobody can sign.
// Its secret is a private key of 32 bytes, or of 64 with the public half.
//
// The text of a key stands for other bytes under standard than under stripe, even
// where it begins with whsec_. A Secret knows which it is, and a scheme that it
// does not fit refuses it with ErrMisfit.
//
// While secrets are rotated, standard, standard-ed25519 and stripe have one
// signature by each of them in the header. The headers of github and hmac-hex have
// room for one: the first secret signs alone, so the receiver must know the new
// one before the sender changes to it.
//
// Only what is signed is proven. Under github and hmac-hex the time is not: there
// is no tolerance, and a request that somebody recorded verifies again at any
// time. Under these and stripe the id is not either. Where a receiver may choose,
// let it choose standard.
//
// # What is signed
//
// By standard the bytes of id.timestamp.body: the header webhook-id, a dot, the
// header webhook-timestamp, a dot, and the body. The header webhook-signature is a
// list with spaces between, of v1 signatures (v1, and the base64 of the HMAC) and of
// others, which are passed over: one header may hold v1 and v1a. The folder
// testdata has vectors of every scheme that an implementation in any language can
// be tested with.
//
// # A secret for each tenant
//
// Secret.Derive makes a tenant's own secret out of one that only the sender
// knows: HMAC-SHA256 of hookladder: and the tenant's name. Each tenant gets its
// own text, and none can sign as another.
package signer
