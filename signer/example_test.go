package signer_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/hookladder/hookladder/signer"
)

// A receiver wraps its handler, and sees only what was signed with its secret.
func ExampleVerifier_Middleware() {
	// In earnest: signer.ParseSecrets(os.Getenv("WEBHOOK_SECRET")).
	secret := signer.NewSecret()
	verifier := &signer.Verifier{Secrets: []signer.Secret{secret}}
	receiver := httptest.NewServer(verifier.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "thanks for %s: %s", r.Header.Get(signer.HeaderID), body)
	})))
	defer receiver.Close()

	send := func(key signer.Secret) {
		const id, body = "msg_1", `{"paid":true}`
		now := time.Now()
		r, _ := http.NewRequest(http.MethodPost, receiver.URL, strings.NewReader(body))
		r.Header.Set(signer.HeaderID, id)
		r.Header.Set(signer.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
		r.Header.Set(signer.HeaderSignature, signer.Sign(key, id, now, []byte(body)))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer answer.Body.Close()
		said, _ := io.ReadAll(answer.Body)
		fmt.Println(answer.StatusCode, strings.TrimSpace(string(said)))
	}
	send(secret)
	send(signer.NewSecret()) // somebody who does not know it
	// Output:
	// 200 thanks for msg_1: {"paid":true}
	// 401 webhook-signature does not match: another secret, or the body was changed
}

// Verify is for those whose request comes from elsewhere than net/http.
func ExampleVerifier_Verify() {
	secret, err := signer.ParseSecret("whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=")
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier := &signer.Verifier{
		Secrets: []signer.Secret{secret},
		Now:     func() time.Time { return time.Unix(1750000003, 0) },
	}
	body := []byte(`{"event":"payment.captured","amount":4200}`)
	const signature = "v1,Z4pYZPjvk7AezopL3vDx8BVFDpXRnSJDFiuLA6mtEx8="
	fmt.Println(verifier.Verify(signer.Signed{ID: "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", Timestamp: "1750000000", Signature: signature}, body))
	fmt.Println(verifier.Verify(signer.Signed{ID: "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", Timestamp: "1749990000", Signature: signature}, body))
	// Output:
	// <nil>
	// webhook-timestamp too old: more than 5m ago
}

// With two secrets each signature is made twice, so that receivers can change
// from one to the other when it suits them.
func ExampleSigner_Sign() {
	secrets, err := signer.ParseSecrets("whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA= whsec_a2tra2tra2tra2tra2tra2tra2tra2tr")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := signer.NewSigner(secrets...)
	if err != nil {
		fmt.Println(err)
		return
	}
	header := s.Sign("msg_1", time.Unix(1750000000, 0), []byte("hello"))
	fmt.Println(len(strings.Fields(header)), "signatures by", secrets)
	// Output: 2 signatures by [whsec_[redacted] whsec_[redacted]]
}

// A receiver that holds a public key verifies, and can't sign.
func ExampleScheme_NewVerifier() {
	secret := signer.StandardEd25519.NewSecret() // stays with the sender
	public, _ := secret.PublicKey()              // whpk_..., for anybody
	s, err := signer.StandardEd25519.NewSigner(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := signer.StandardEd25519.NewVerifier(public)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	timestamp := strconv.FormatInt(now.Unix(), 10)
	header := s.Sign("msg_1", now, []byte("hello"))
	fmt.Println(verifier.Verify(signer.Signed{ID: "msg_1", Timestamp: timestamp, Signature: header}, []byte("hello")))
	fmt.Println(verifier.Verify(signer.Signed{ID: "msg_1", Timestamp: timestamp, Signature: header}, []byte("hullo")))
	// Output:
	// <nil>
	// webhook-signature does not match: another secret, or the body was changed
}

// A receiver that has Stripe's library already needs no other.
func ExampleScheme_NewSigner() {
	secret, err := signer.Stripe.ParseSecret("whsec_Lm3nQ8pR5sT1uV7wX9yZ0aB2cD4eF6gH")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := signer.Stripe.NewSigner(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Header())
	fmt.Println(s.Sign("msg_1", time.Unix(1750000000, 0), []byte(`{"event":"payment.captured","amount":4200}`)))

	_, err = signer.GitHub.NewSigner(signer.NewSecret()) // a standard secret
	fmt.Println(err)
	// Output:
	// Stripe-Signature
	// t=1750000000,v1=107c4b18fe1e7eeed41ac931d2079042a37a5c75963d48f55cac78673abfa3cd
	// secret 1: secret of another scheme: github signs with a text of 16 to 256 printable ASCII characters without spaces
}

// Each tenant's secret comes out of one that only the sender knows.
func ExampleSecret_Derive() {
	secret, err := signer.ParseSecret("whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(secret.Derive("acme").Reveal())
	// Output: whsec_DVoJYheXExmjW3qPD10tNI4lkVe02uWdqvHjzZdnzws=
}
