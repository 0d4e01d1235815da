// Package signer signs and verifies webhooks. It supports Standard Webhooks, and the
// schemes of Stripe, GitHub and Convoy, which their libraries verify. It imports only the
// standard library.
//
// # To receive
//
// Wrap the handler in the middleware. Every request that reaches the handler was signed
// with the secret in the last five minutes, and its body can be read as usual:
//
//	secrets, err := signer.ParseSecrets(os.Getenv("WEBHOOK_SECRET"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	verifier := &signer.Verifier{Secrets: secrets}
//	http.Handle("POST /webhooks", verifier.Middleware(handler))
//
// A delivery may come more than once, because the sender retries if the response is lost.
// Every retry has the same webhook-id, so store the ids of processed deliveries and
// return 200 for a repeat. A router that reads the body before the middleware must pass
// on the same bytes, because JSON that is parsed and encoded again has other bytes.
//
// To replace a secret without losing a delivery, first give the receiver both secrets,
// separated by a space. Then let the sender use the new one. Finally remove the old one
// from the receiver.
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
// Sender and receiver agree on a scheme. The functions above use Standard. For the others
// use Scheme.NewSecret, Scheme.NewSigner and Scheme.NewVerifier.
//
//	scheme            header               its value                          signed             key
//	standard          webhook-signature    v1,<base64 HMAC-SHA256> ...        id.timestamp.body  whsec_: the bytes of its base64
//	standard-ed25519  webhook-signature    v1a,<base64 Ed25519> ...           id.timestamp.body  whsk_ signs, whpk_ verifies
//	stripe            stripe-signature     t=<unix>,v1=<hex HMAC-SHA256>,...  timestamp.body     the text itself
//	github            x-hub-signature-256  sha256=<hex HMAC-SHA256>           body               the text itself
//	hmac-hex          x-signature          <hex HMAC-SHA256>                  body               the text itself
//	hmac              that of its Form     that of its Form                   that of its Form   the text itself
//
// A receiver of standard-ed25519 has a public key, which verifies but can't sign. The
// secret is a private key of 32 bytes, or of 64 with the public half.
//
// The same text is a different key in standard than in stripe, even if it begins with
// whsec_. A Secret knows its kind, and a scheme returns ErrMisfit for a secret of another
// kind.
//
// A Form of hmac has another hash, encoding, prefix, content or header. Set it in
// Scheme.NewSignerIn and in the Verifier. Receivers of other senders need no change then.
//
// While secrets are rotated, the header of standard, standard-ed25519 and stripe has one
// signature by each secret, and so has a Form with a time. The header of github and
// hmac-hex has only one signature, which is made by the first secret. So the receiver must
// have the new secret before the sender uses it.
//
// A signature proves only the signed parts. github and hmac-hex do not sign the time, so
// there is no tolerance, and a recorded request verifies at any time. They and stripe do
// not sign the id either. If you can choose, choose standard.
//
// # The signed bytes
//
// standard signs the bytes of id.timestamp.body: the header webhook-id, a dot, the
// header webhook-timestamp, a dot, and the body. The header webhook-signature is a list
// of signatures separated by spaces. A v1 signature is v1, a comma and the base64 of the
// HMAC. A verifier ignores other versions, so one header may have v1 and v1a. The folder
// testdata has test vectors of every scheme for any language.
//
// # A secret for each tenant
//
// Secret.Derive returns a tenant's own secret, derived from a secret that only the sender
// knows: the HMAC-SHA256 of hookladder: and the tenant's name. So no tenant can sign as
// another.
package signer
