package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/show"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/signer"
)

// most of a body that is shown, in bytes; a screen holds no more.
const shownBody = 16 << 10

// most of a body that is read: what may be published with MAX_BODY at its highest.
const readBody = 4 << 20

const aboutListen = `Listens for callbacks, verifies the signature of each with SIGNING_SECRET,
--secret-file or --secret, prints headers, body and verdict, and answers with
--status. A callback that can't be verified is answered with 401, as a receiver
should. Control characters are printed escaped, and each line of a body begins with
a bar. With --save the file holds the last one byte for byte: hookladder verify says
what is wrong with it. Other users of this machine can see --secret in the list of
processes: keep secrets that matter in a file.

With --forward-to it takes deliveries from Hookladder instead and hands each to an app
on this machine, as a callback would: no tunnel is needed, since nothing has to reach
this machine. It makes an endpoint of kind pull for that, which gets a copy of what
matches --topic, shares it with no other listener, and deletes it at the end. It signs with --secret, --secret-file or
SIGNING_SECRET, or else with a fresh secret that it prints. Each attempt is printed with
the app's answer. At a terminal r sends the last one again, f has the next attempt fail,
and q ends it. --fail has the first attempts fail, --status says with which answer (500),
or without --fail answers all of them in place of the app.`

func newListen(s world) *cobra.Command {
	var addr, secret, secretFile, scheme, save string
	var status int
	var forward forwarding
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Receive callbacks: verify each and print it",
		Long:  aboutListen,
		Example: `  SIGNING_SECRET=whsec_... hookladder listen
  hookladder listen --addr 127.0.0.1:9000 --secret-file ./secret --status 503
  hookladder listen --signature standard-ed25519 --secret whpk_...
  hookladder listen --forward-to http://localhost:3000/hooks --topic 'payment.*' --fail 3`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := forward.check(cmd, status); err != nil {
				return err
			}
			if status < 200 || status > 599 {
				return usagef("--status %d: must be from 200 to 599", status)
			}
			secret, err := secretOf(secret, secretFile)
			if err != nil {
				return err
			}
			if forward.target != "" {
				return forward.run(cmd, secret)
			}
			verifier, err := listenVerifier(scheme, secret, s.vars())
			if err != nil {
				return err
			}
			ear := &listener{verifier: verifier, status: status, save: save, out: cmd.OutOrStdout()}
			return ear.listen(cmd.Context(), addr)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:9000", "where to listen")
	cmd.Flags().StringVar(&secret, "secret", "", "the signing secret, or the public key of ed25519; several are separated by spaces (default SIGNING_SECRET)")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "a file that holds the secret or public key")
	cmd.Flags().StringVar(&scheme, "signature", signer.Standard.String(), "how it is signed: "+strings.Join(schemeNames(), ", "))
	cmd.Flags().IntVar(&status, "status", http.StatusNoContent, "the status to answer a verified callback with")
	cmd.Flags().StringVar(&save, "save", "", "a file to save the last callback to, for hookladder verify")
	forward.add(cmd, s)
	completes(cmd, "signature", schemeNames()...)
	completes(cmd, "status", answers...)
	return cmd
}

// secretOf is the secret of the two flags; empty: neither was given.
func secretOf(secret, file string) (string, error) {
	if file == "" {
		return secret, nil
	}
	if secret != "" {
		return "", usagef("give --secret or --secret-file, not both")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", usagef("--secret-file: %w", err)
	}
	if secret = strings.TrimSpace(string(text)); secret == "" {
		return "", usagef("--secret-file: %s is empty", file)
	}
	return secret, nil
}

// listenVerifier verifies with the secrets of the flag, or else with those of
// the environment, which are standard ones.
func listenVerifier(name, secret string, vars map[string]string) (*signer.Verifier, error) {
	scheme, err := signer.ParseScheme(name)
	if err != nil {
		return nil, usagef("--signature: %w", err)
	}
	v := &signer.Verifier{}
	switch {
	case secret != "":
		if v, err = scheme.NewVerifier(secret); err != nil {
			return nil, usagef("--secret: %w", err)
		}
	case scheme != signer.Standard:
		return nil, usagef("nothing to verify %s with: give --secret-file or --secret", scheme)
	default:
		if v.Secrets, err = signingSecrets(vars); err != nil {
			return nil, err
		}
		if len(v.Secrets) == 0 {
			return nil, usagef("nothing to verify with: set SIGNING_SECRET or give --secret whsec_...")
		}
	}
	v.MaxBody = readBody
	return v, nil
}

// answers are the statuses that a shell offers for --status.
var answers = []string{
	"204\tdelivered", "200\tdelivered", "301\ta redirect: not followed", "400\ttried again", "410\tgone: dead at once",
	"429\ttried again, obeys Retry-After", "500\ttried again, counts for the breaker", "503\ttried again, obeys Retry-After",
}

// listener receives callbacks and prints them.
type listener struct {
	verifier *signer.Verifier
	status   int
	save     string // a file; empty: none

	mu  sync.Mutex // so that callbacks are printed and saved one after the other
	out io.Writer
}

// listen serves until ctx ends.
func (e *listener) listen(ctx context.Context, addr string) error {
	ln, err := listenOn(ctx, addr, "--addr")
	if err != nil {
		return err
	}
	fmt.Fprintf(e.out, "listening on http://%s, answering %d; Ctrl-C ends it\n", ln.Addr(), e.status)
	return serveUntil(ctx, ln, e)
}

// ServeHTTP verifies one callback, prints and answers it.
func (e *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, readBody)
	status, verdict := e.status, "genuine"
	if _, err := e.verifier.VerifyRequest(r); err != nil {
		status, verdict = http.StatusUnauthorized, "NOT GENUINE: "+err.Error()
	}
	body, _ := io.ReadAll(r.Body) // as much as can be read is shown; the verdict stands
	e.print(r, body, fmt.Sprintf("%s, answered %d", verdict, status))
	w.WriteHeader(status)
}

// print shows a callback. Any sender may have written it: its control characters
// don't reach the terminal, and no line of it looks like one of ours.
func (e *listener) print(r *http.Request, body []byte, verdict string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(e.out, "\n%s %s %s\n", time.Now().Format(show.Clock), term.Visible(r.Method), term.Visible(r.URL.RequestURI()))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(e.out, "  %s: %s\n", term.Visible(strings.ToLower(name)), term.Visible(strings.Join(r.Header[name], ", ")))
	}
	if len(body) > 0 {
		part, more := body, ""
		if len(body) > shownBody {
			part, more = body[:shownBody], " ..."
		}
		fmt.Fprintln(e.out)
		for line := range strings.Lines(string(part) + more) {
			fmt.Fprintf(e.out, "  | %s\n", term.Visible(strings.TrimRight(line, "\r\n")))
		}
	}
	if e.save != "" {
		if err := os.WriteFile(e.save, saved(r, body), 0o600); err != nil {
			verdict += ", not saved: " + err.Error()
		}
	}
	fmt.Fprintf(e.out, "  => %s\n", term.Visible(verdict))
}

// saved is a callback as it came, which hookladder verify reads.
func saved(r *http.Request, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s\r\nhost: %s\r\n", r.Method, r.URL.RequestURI(), r.Proto, r.Host)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", strings.ToLower(name), value)
		}
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// listenOn listens on the address of a flag.
func listenOn(ctx context.Context, addr, flag string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	return ln, elsewhere(err, flag)
}

// elsewhere adds to the error of an address that is in use how to choose another.
func elsewhere(err error, with string) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" {
		return fmt.Errorf("%w; choose another address with %s", err, with)
	}
	return err
}

// serveUntil serves until ctx ends, then lets open requests finish for a moment.
func serveUntil(ctx context.Context, ln net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		_ = server.Close() // what did not finish in time is cut
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
