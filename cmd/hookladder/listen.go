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
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/signer"
)

// shownBody is the highest number of printed bytes of a body, because a screen shows no more.
const shownBody = 16 << 10

// readBody is the highest number of bytes that are read of a body: the highest MAX_BODY.
const readBody = 4 << 20

const aboutListen = `Listens for webhooks, verifies the signature of each with SIGNING_SECRET,
--secret-file or --secret, prints headers, body and result, and responds with
--status. If a webhook can't be verified, it responds with 401, as a receiver should.
Control characters are escaped, and each line of a body begins with a bar. --save
writes the last webhook to a file byte for byte, and hookladder verify explains what is
wrong with it. Other users of this machine can see --secret in the list of processes, so
use a file for secrets of production.

With --forward-to it takes deliveries from Hookladder instead, and sends each of them to
an app on this machine. No tunnel is needed, because no server has to reach this machine.
It creates an endpoint of kind pull, which receives the messages that match --topic. It
shares the endpoint with no other listener, and deletes it at the end. It signs with
--secret, --secret-file or SIGNING_SECRET, or else with a new secret, which it prints.
With --endpoint it takes from an endpoint that is there, for which a key with the scope
consume@<endpoint> is enough. It prints each attempt with the app's response. At a
terminal r sends the last delivery again, f makes the next attempt fail, and q ends it.
--fail makes the first attempts fail, with the status of --status (500). Without --fail,
--status replaces the response of the app to every attempt.`

func newListen(s world) *cobra.Command {
	var addr, secret, secretFile, scheme, save string
	var form formFlags
	var status int
	var forward forwarding
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Receive webhooks, verify and print each",
		Long:  aboutListen,
		Example: `  SIGNING_SECRET=whsec_... hookladder listen
  hookladder listen --addr 127.0.0.1:9000 --secret-file ./secret --status 503
  hookladder listen --signature standard-ed25519 --secret whpk_...
  hookladder listen --forward-to http://localhost:3000/hooks --topic 'payment.*' --fail 3
  hookladder listen --forward-to http://localhost:3000/hooks --endpoint ep_01JC3A8Q7K --key-file ./key`,
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
			if err := form.check(signer.Scheme(scheme)); err != nil {
				return err
			}
			verifier.Form = form.form
			ear := &listener{verifier: verifier, status: status, save: save, out: cmd.OutOrStdout()}
			return ear.listen(cmd.Context(), addr)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:9000", "where to listen")
	cmd.Flags().StringVar(&secret, "secret", "", "the signing secret, or the public key of ed25519; several are separated by spaces (default SIGNING_SECRET)")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "a file with the secret or public key")
	cmd.Flags().StringVar(&scheme, "signature", signer.Standard.String(), "the signature scheme: "+strings.Join(schemeNames(), ", "))
	form.add(cmd)
	cmd.Flags().IntVar(&status, "status", http.StatusNoContent, "the status of the response to a valid webhook")
	cmd.Flags().StringVar(&save, "save", "", "save the last webhook to this file, for hookladder verify")
	forward.add(cmd, s)
	completes(cmd, "signature", schemeNames()...)
	completes(cmd, "status", answers...)
	return cmd
}

// secretOf returns the secret of the two flags; empty: neither was passed.
func secretOf(secret, file string) (string, error) {
	if file == "" {
		return secret, nil
	}
	if secret != "" {
		return "", usagef("give --secret or --secret-file, not both")
	}
	secret, err := readSecretFile(file, nil)
	if err == nil && secret == "" {
		err = usagef("--secret-file: %s is empty", file)
	}
	return secret, err
}

// listenVerifier returns a verifier with the secrets of the flag. Without the flag it uses the
// standard secrets of the environment.
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
		if v.Secrets, _, err = signingSecrets(vars); err != nil {
			return nil, err
		}
		if len(v.Secrets) == 0 {
			return nil, usagef("nothing to verify with: set SIGNING_SECRET or give --secret whsec_...")
		}
	}
	v.MaxBody = readBody
	return v, nil
}

// answers are the statuses that a shell completes for --status.
var answers = []string{
	"204\tdelivered", "200\tdelivered", "301\ta redirect: not followed", "400\ttried again", "410\tgone: dead at once",
	"429\ttried again, obeys Retry-After", "500\ttried again, counts for the breaker", "503\ttried again, obeys Retry-After",
}

// listener receives webhooks and prints them.
type listener struct {
	verifier *signer.Verifier
	status   int
	save     string // a file; empty: none

	mu  sync.Mutex // guards out and save, because webhooks are written one after the other
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

// ServeHTTP verifies and prints one webhook, and returns the status.
func (e *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, readBody)
	status, verdict := e.status, "genuine"
	if _, err := e.verifier.VerifyRequest(r); err != nil {
		status, verdict = http.StatusUnauthorized, "NOT GENUINE: "+err.Error()
	}
	body, _ := io.ReadAll(r.Body) // prints the readable part; the verdict does not change
	e.print(r, body, fmt.Sprintf("%s, answered %d", verdict, status))
	w.WriteHeader(status)
}

// print prints a webhook of any sender. It escapes control characters, and marks the lines
// of the body.
func (e *listener) print(r *http.Request, body []byte, verdict string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(e.out, "\n%s %s %s\n", time.Now().Format(clockFormat), visible(r.Method), visible(r.URL.RequestURI()))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(e.out, "  %s: %s\n", visible(strings.ToLower(name)), visible(strings.Join(r.Header[name], ", ")))
	}
	if len(body) > 0 {
		part, more := body, ""
		if len(body) > shownBody {
			part, more = body[:shownBody], " ..."
		}
		fmt.Fprintln(e.out)
		for line := range strings.Lines(string(part) + more) {
			fmt.Fprintf(e.out, "  | %s\n", visible(strings.TrimRight(line, "\r\n")))
		}
	}
	if e.save != "" {
		if err := os.WriteFile(e.save, saved(r, body), 0o600); err != nil {
			verdict += ", not saved: " + err.Error()
		}
	}
	fmt.Fprintf(e.out, "  => %s\n", visible(verdict))
}

// saved returns the received webhook in the form that hookladder verify reads.
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

// listenOn returns a listener on the address of a flag.
func listenOn(ctx context.Context, addr, flag string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	return ln, elsewhere(err, flag)
}

// elsewhere returns the error with a flag for another address, if the address is in use.
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
		_ = server.Close() // requests that did not finish in time are cancelled
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// parseSaved returns the headers and the body of a saved webhook. It has an optional request
// line, headers, an empty line, and the body. parseSaved also reads lines of curl -v, which begin
// with > or <. It reads the output of hookladder listen too, with a bar before each line of the
// body.
func parseSaved(text []byte) (http.Header, []byte, error) {
	h := http.Header{}
	for n := 1; ; n++ {
		line, rest, more := bytes.Cut(text, []byte("\n"))
		head := trimmedLine(string(line))
		switch {
		case head == "" && (len(h) > 0 || !more):
			return h, bodyOfListen(rest), nil
		case strings.HasPrefix(head, "| ") && len(h) > 0: // output of listen without its empty line
			return h, bodyOfListen(text), nil
		case head != "":
			if err := addHeader(h, head, n); err != nil {
				return nil, nil, err
			}
		}
		if !more {
			return h, nil, nil
		}
		text = rest
	}
}

// trimmedLine returns a line without the marks of curl -v.
func trimmedLine(line string) string {
	line = strings.TrimSpace(line)
	if line == ">" || line == "<" {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(line, "> "), "< ")
}

// requestLine matches the first line of a request. It also matches the line of hookladder listen
// with a time, the method, and the path.
var requestLine = regexp.MustCompile(`^([0-9:.]+ )?[A-Z]+ /\S*( HTTP/[0-9.]+)?$`)

// addHeader parses one line before the body.
func addHeader(h http.Header, line string, n int) error {
	name, value, ok := strings.Cut(line, ":")
	switch {
	case ok && name != "" && !strings.ContainsAny(name, " \t\"{}"):
		h.Add(name, strings.TrimSpace(value))
		return nil
	case len(h) == 0 && requestLine.MatchString(line):
		return nil
	default:
		return fmt.Errorf("line %d is no header: each line must be \"name: value\", with an empty line before the body", n)
	}
}

// bodyOfListen returns the body without the bars that hookladder listen prints, and without the
// verdict after the body.
func bodyOfListen(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("  | ")) {
		return body
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		text, ok := strings.CutPrefix(line, "  | ")
		if !ok {
			break
		}
		lines = append(lines, text)
	}
	return []byte(strings.TrimSuffix(strings.Join(lines, ""), "\n"))
}

// formFlags are the flags of the form of hmac.
type formFlags struct {
	form                    signer.Form
	hash, encoding, content string
}

// formUsage describes the flags of the form, in the order of the fields.
var formUsage = [5]string{
	"the header of the signature, with hmac or hmac-hex (default x-signature)",
	"the hash function, with hmac: " + strings.Join(dispatcher.Texts(signer.Hashes()), ", "),
	"the text form of the signature, with hmac: " + strings.Join(dispatcher.Texts(signer.Encodings()), ", "),
	"the text before the signature, with hmac, such as v0=",
	"the signed text, with hmac: " + strings.Join(dispatcher.Texts(signer.Contents()), ", ") + "; with a time the header is t=...,v1=...",
}

func (f *formFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.form.Header, "signature-header", "", formUsage[0])
	flags.StringVar(&f.hash, "signature-hash", "", formUsage[1])
	flags.StringVar(&f.encoding, "signature-encoding", "", formUsage[2])
	flags.StringVar(&f.form.Prefix, "signature-prefix", "", formUsage[3])
	flags.StringVar(&f.content, "signature-content", "", formUsage[4])
	completesForm(cmd)
}

func completesForm(cmd *cobra.Command) {
	completes(cmd, "signature-hash", dispatcher.Texts(signer.Hashes())...)
	completes(cmd, "signature-encoding", dispatcher.Texts(signer.Encodings())...)
	completes(cmd, "signature-content", dispatcher.Texts(signer.Contents())...)
}

// check parses the flags. An empty scheme is read from the webhook's headers.
func (f *formFlags) check(scheme signer.Scheme) error {
	f.form.Hash, f.form.Encoding, f.form.Content = signer.Hash(f.hash), signer.Encoding(f.encoding), signer.Content(f.content)
	for flag, check := range map[string]func() error{
		"hash": f.form.CheckHash, "encoding": f.form.CheckEncoding, "prefix": f.form.CheckPrefix, "content": f.form.CheckContent,
	} {
		if err := check(); err != nil {
			return usagef("--signature-%s: %w", flag, err)
		}
	}
	only := signer.Form{Header: f.form.Header}
	if f.form != (signer.Form{}) && scheme != "" && scheme != signer.HMAC && (scheme != signer.HMACHex || f.form != only) {
		return usagef("--signature-header and the flags beside it are for the signature %s, not %s", signer.HMAC, scheme)
	}
	return nil
}
