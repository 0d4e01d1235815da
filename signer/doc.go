// Package signer proves where a webhook comes from. It signs and verifies HTTP
// callbacks as Standard Webhooks describes them, or as the libraries of others
// verify them, and imports nothing but the standard library.
//
// # To receive
//
// Wrap the handler. Every request that reaches it was signed with the secret, no
// more than five minutes ago, and its body can be read as usual:
//
//	secrets, err := signer.ParseSecrets(os.Getenv("WEBHOOK_SECRET"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	verifier := &signer.Verifier{Secrets: secrets}
//	http.Handle("POST /webhooks", verifier.Middleware(handler))
//
// A delivery may come more than once: when an answer gets lost, the sender can't
// know that the delivery arrived. Every repeat has the same webhook-id, so keep the
// ids of what was processed and answer a repeat with 200. A router that reads the
// body before the middleware must pass on the same bytes: JSON that is parsed and
// written again has other bytes.
//
// To exchange a secret without losing a delivery, first give the receiver both
// secrets, separated by a space. Then let the sender use the new one. At last remove
// the old one from the receiver.
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
// Sender and receiver agree on a scheme. Everything above is Standard; for the others
// begin with Scheme.NewSecret, Scheme.NewSigner and Scheme.NewVerifier.
//
//	scheme            header               its value                          signed             key
//	standard          webhook-signature    v1,<base64 HMAC-SHA256> ...        id.timestamp.body  whsec_: the bytes of its base64
//	standard-ed25519  webhook-signature    v1a,<base64 Ed25519> ...           id.timestamp.body  whsk_ signs, whpk_ verifies
//	stripe            stripe-signature     t=<unix>,v1=<hex HMAC-SHA256>,...  timestamp.body     the text itself
//	github            x-hub-signature-256  sha256=<hex HMAC-SHA256>           body               the text itself
//	hmac-hex          x-signature          <hex HMAC-SHA256>                  body               the text itself
//
// A receiver of standard-ed25519 has a public key, which verifies but can't sign. The
// secret is a private key of 32 bytes, or of 64 with the public half.
//
// The same text is another key under standard than under stripe, even where it begins
// with whsec_. A Secret knows its kind, and a scheme refuses a secret of another kind
// with ErrMisfit.
//
// While secrets are rotated, standard, standard-ed25519 and stripe have one
// signature by each of them in the header. The headers of github and hmac-hex have
// room for one: the first secret signs alone, so the receiver must know the new
// one before the sender changes to it.
//
// Only what is signed is proven. github and hmac-hex don't sign the time: there is no
// tolerance, and a recorded request verifies again at any time. These two and stripe
// don't sign the id either. If you can choose, choose standard.
//
// # What is signed
//
// standard signs the bytes of id.timestamp.body: the header webhook-id, a dot, the
// header webhook-timestamp, a dot, and the body. The header webhook-signature is a
// list of signatures with spaces between. A v1 signature is v1, a comma and the
// base64 of the HMAC. Others are ignored, so one header may hold v1 and v1a. The
// folder testdata has test vectors of every scheme for any language.
//
// # A secret for each tenant
//
// Secret.Derive makes a tenant's own secret of one that only the sender knows: the
// HMAC-SHA256 of hookladder: and the tenant's name. No tenant can sign as another.
package signer
