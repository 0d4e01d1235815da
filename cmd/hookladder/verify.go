package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/ladder"
	"github.com/hookladder/hookladder/signer"
	"github.com/hookladder/hookladder/signer/diagnose"
)

// These set the exit code. The report was printed.
var (
	errNotValid = errors.New("not valid") // a receiver should refuse the webhook, or its code is wrong
	errComputed = errors.New("the webhook is valid, and your code's value is not its signature")
	errCompared = errors.New("the webhook is valid, and so is your code's value: see how it compares them")
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	headers            []string
	body, bodyFile     string
	hasBody            bool
	secret, secretFile string
	scheme             string
	form               formFlags
	computed, at       string
	tolerance          time.Duration
	asJSON             bool
}

func newVerify(s world) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify [<file>]",
		Short: "Explain why the signature of a webhook is not valid",
		Long: `Verifies a webhook as its receiver should, and explains why it is not valid. Reasons are
a missing header, a header of another scheme, a wrong clock, a body that was parsed and
formatted again, another secret, a secret that was not decoded, and another encoding. The
command makes these mistakes itself, at most two at a time, until the result is the
signature of the webhook.

The file has the saved webhook: headers, an empty line, and the body byte for byte. - is
standard input. The output of hookladder listen and of curl -v works too. Without a file
use --header and --body or --body-file.

With --computed, the signature that your own code computed, it explains how your code
computed it. The secret is in --secret-file, --secret or SIGNING_SECRET. It is never
printed. The time is compared with this machine's clock, or with --at.

The exit code is 0 if nothing is wrong, else 1.`,
		Example: `  SIGNING_SECRET=whsec_... hookladder verify webhook.txt
  hookladder verify webhook.txt --secret-file ./secret --computed "v1,3xYp..." --at 2026-01-31T12:00:00Z
  hookladder verify --header "stripe-signature: t=1767225600,v1=5f0c..." --body-file body.json --secret-file ./secret`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.hasBody = cmd.Flags().Changed("body")
			q, err := f.question(args, cmd.InOrStdin(), s.vars())
			if err != nil {
				return err
			}
			r := diagnose.Inspect(q)
			if f.asJSON {
				err = printJSON(cmd.OutOrStdout(), r)
			} else {
				printReport(cmd.OutOrStdout(), r)
			}
			if err != nil {
				return err
			}
			return verdict(r, f.computed != "")
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.headers, "header", nil, "a header of the webhook, \"name: value\"; may be repeated")
	flags.StringVar(&f.body, "body", "", "its body")
	flags.StringVar(&f.bodyFile, "body-file", "", "a file with its body byte for byte, - for standard input")
	flags.StringVar(&f.secret, "secret", "", "the receiver's secret, or the public key of ed25519; several are separated by spaces")
	flags.StringVar(&f.secretFile, "secret-file", "", "a file with the secret")
	flags.StringVar(&f.scheme, "signature", "", "the signature scheme: "+strings.Join(schemeNames(), ", ")+" (default: the scheme of its headers)")
	f.form.add(cmd)
	flags.StringVar(&f.computed, "computed", "", "the signature that your own code computed")
	flags.StringVar(&f.at, "at", "", "when it arrived, such as 2026-01-31T12:00:00Z, or an age such as 2h (default now)")
	durationVar(flags, &f.tolerance, "tolerance", signer.DefaultTolerance, "how far its timestamp may be from that time")
	flags.BoolVar(&f.asJSON, "json", false, "print the report as JSON")
	completes(cmd, "signature", schemeNames()...)
	return cmd
}

func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("verify takes one file, not %d; see %s --help", len(args), cmd.CommandPath())
	}
	return nil
}

// mostSaved is the largest saved webhook: the largest body, and headers.
const mostSaved = readBody + 1<<20

// question returns the webhook, and the secrets of its receiver.
func (f *verifyFlags) question(args []string, in io.Reader, vars map[string]string) (diagnose.Question, error) {
	q := diagnose.Question{Header: http.Header{}, Form: f.form.form, Computed: f.computed, At: time.Now(), Tolerance: f.tolerance}
	var err error
	if f.scheme != "" {
		if q.Scheme, err = signer.ParseScheme(f.scheme); err != nil {
			return q, usagef("--signature: %w", err)
		}
	}
	if err = f.form.check(q.Scheme); err != nil {
		return q, err
	}
	if f.at != "" {
		if q.At, err = timeFlag("at", f.at); err != nil {
			return q, err
		}
	}
	if err = f.callback(&q, args, in); err != nil {
		return q, err
	}
	q.Secrets, err = f.secrets(vars)
	return q, err
}

// callback reads headers and body.
func (f *verifyFlags) callback(q *diagnose.Question, args []string, in io.Reader) error {
	if f.hasBody && f.bodyFile != "" {
		return usagef("give --body or --body-file, not both")
	}
	if len(args) == 0 && len(f.headers) == 0 {
		return usagef("verify needs a file with the webhook, or --header and its body; see hookladder verify --help")
	}
	if len(args) > 0 {
		text, err := readAtMost(args[0], in, mostSaved)
		if err != nil {
			return usageError{err}
		}
		if q.Header, q.Body, err = parseSaved(text); err != nil {
			return usagef("%s: %w", args[0], err)
		}
	}
	for _, h := range f.headers {
		name, value, err := headerFlag(h)
		if err != nil {
			return err
		}
		q.Header.Add(name, value)
	}
	switch {
	case f.hasBody:
		q.Body = []byte(f.body)
	case f.bodyFile != "":
		body, err := readAtMost(f.bodyFile, in, mostSaved)
		if err != nil {
			return usagef("--body-file: %w", err)
		}
		q.Body = body
	}
	return nil
}

// secrets returns the texts of the receiver's secrets.
func (f *verifyFlags) secrets(vars map[string]string) ([]string, error) {
	file := f.secretFile
	text := f.secret
	switch {
	case file != "" && text != "":
		return nil, usagef("give --secret or --secret-file, not both")
	case file == "" && text == "":
		text, file = vars["SIGNING_SECRET"], vars["SIGNING_SECRET_FILE"]
	}
	if file != "" {
		var err error
		if text, err = readSecretFile(file, nil); err != nil {
			return nil, err
		}
	}
	secrets := strings.Fields(text)
	if len(secrets) == 0 {
		return nil, usagef("nothing to verify with: pass --secret-file or --secret, or set SIGNING_SECRET")
	}
	if len(secrets) > signer.MaxSecrets {
		return nil, usagef("%d secrets: give at most %d", len(secrets), signer.MaxSecrets)
	}
	return secrets, nil
}

// readAtMost returns a whole file, or standard input for -. Its errors name the file.
func readAtMost(name string, in io.Reader, most int64) ([]byte, error) {
	if name != "-" || in == nil {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

// verdict returns the error that sets the exit code, nil if nothing is wrong.
func verdict(r diagnose.Inspection, computed bool) error {
	switch {
	case r.Valid && len(r.Findings) == 0:
		return nil
	case !r.Valid || !computed:
		return errNotValid
	case r.Findings[len(r.Findings)-1].Cause == diagnose.ComputedRight:
		return errCompared
	}
	return errComputed
}

// printReport prints a sentence for each finding, with its cure below.
func printReport(out io.Writer, r diagnose.Inspection) {
	verdict := "not valid"
	if r.Valid {
		verdict = fmt.Sprintf("valid: signed with this secret as %s", r.Scheme)
	} else if r.Matches {
		verdict = fmt.Sprintf("the signature is right, as %s, but a receiver should refuse the webhook", r.Scheme)
	}
	if r.Valid && r.Age != nil {
		verdict += fmt.Sprintf(", %s before it arrived", ladder.FormatDuration(time.Duration(*r.Age*float64(time.Second))))
	}
	fmt.Fprintln(out, verdict)
	for _, one := range r.Findings {
		fmt.Fprintf(out, "  %s: %s\n", one.Cause, visible(one.Says))
		if one.Cure != "" {
			fmt.Fprintf(out, "    %s\n", visible(one.Cure))
		}
	}
}

// errPointsLost sets the exit code of a receiver that lost points. The reasons were printed.
var errPointsLost = errors.New("the receiver lost points")

// sampleBody is the default body. Its values are invented.
const sampleBody = `{"type":"hookladder.check","data":{"order":"order_17","total":1050}}`

func newCheck(s world) *cobra.Command {
	var scheme, topic, body, bodyFile, contentType string
	var of verifyFlags
	var timeout time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check <url>",
		Short: "Try a test receiver with good and bad webhooks, and grade it",
		Long: `Sends a receiver webhooks that it should accept, and others that it should refuse:
valid, forged, altered, unsigned, stale, repeated, out of order, slow, large, and many at
once. It grades the responses, and prints the cure for each lost point. It sends thirty
requests in about three seconds.

Use a test receiver, because it may process the valid webhooks. The secret is the
receiver's own, in --secret-file or --secret, or else in SIGNING_SECRET. Pass a --topic
and a --body or --body-file that the receiver accepts.

The exit code is 0 for all points, 1 if some were lost, and 4 if there was no response.`,
		Example: `  SIGNING_SECRET=whsec_... hookladder check http://localhost:3000/hooks
  hookladder check http://localhost:3000/hooks --secret-file ./secret --topic order.paid --body-file order.json
  hookladder check http://localhost:3000/hooks --signature github --secret-file ./secret`,
		Args: oneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := diagnose.Target{
				URL: args[0], Topic: topic, Body: []byte(body), Type: contentType, Agent: "Hookladder/" + release(), Timeout: timeout,
			}
			if u, err := url.Parse(args[0]); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return usagef("%q is not a URL such as http://localhost:3000/hooks", args[0])
			}
			err := of.receiver(&r, scheme, s.vars())
			if err != nil {
				return err
			}
			if bodyFile != "" {
				if cmd.Flags().Changed("body") {
					return usagef("give --body or --body-file, not both")
				}
				if r.Body, err = readAtMost(bodyFile, cmd.InOrStdin(), readBody); err != nil {
					return usagef("--body-file: %w", err)
				}
			}
			return carryOutCheck(cmd, r, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&of.secret, "secret", "", "the receiver's secret, or the private key of ed25519 (default SIGNING_SECRET)")
	flags.StringVar(&of.secretFile, "secret-file", "", "a file with the secret")
	flags.StringVar(&scheme, "signature", signer.Standard.String(), "the signature scheme: "+strings.Join(schemeNames(), ", "))
	of.form.add(cmd)
	flags.StringVar(&topic, "topic", "hookladder.check", "the topic of the webhooks")
	flags.StringVar(&body, "body", sampleBody, "their body")
	flags.StringVar(&bodyFile, "body-file", "", "a file with the body, - for standard input")
	flags.StringVar(&contentType, "content-type", "application/json", "the content type of the body")
	durationVar(flags, &timeout, "timeout", 15*time.Second, "how long to wait for each response")
	flags.BoolVar(&asJSON, "json", false, "print the results as JSON")
	completes(cmd, "signature", schemeNames()...)
	return cmd
}

func oneURL(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("check takes the URL of one receiver; see %s --help", cmd.CommandPath())
	}
	return nil
}

// receiver sets the scheme, its form, and the secret that signs, which is the first one.
func (f *verifyFlags) receiver(r *diagnose.Target, scheme string, vars map[string]string) (err error) {
	if r.Scheme, err = signer.ParseScheme(scheme); err != nil {
		return usagef("--signature: %w", err)
	}
	if err := f.form.check(r.Scheme); err != nil {
		return err
	}
	r.Form = f.form.form
	texts, err := f.secrets(vars)
	if err != nil {
		return err
	}
	if r.Secret, err = r.Scheme.ParseSecret(texts[0]); err != nil {
		return usagef("the secret: %w", err)
	}
	return nil
}

// carryOutCheck runs the trials and prints each result. It returns an error if the receiver lost
// points.
func carryOutCheck(cmd *cobra.Command, r diagnose.Target, asJSON bool) error {
	out := cmd.OutOrStdout()
	report, err := diagnose.Check(cmd.Context(), r, func(one diagnose.CheckResult) {
		if !asJSON {
			printTrial(out, one)
		}
	})
	switch {
	case err != nil && !errors.Is(err, diagnose.ErrNotTaken):
		return err
	case asJSON:
		if err := printJSON(out, report); err != nil {
			return err
		}
	default:
		fmt.Fprintf(out, "%d of %d points\n", report.Points, report.Of)
	}
	if err == nil && report.Points < report.Of {
		err = errPointsLost
	}
	return err
}

func printTrial(out io.Writer, r diagnose.CheckResult) {
	verdict := "ok  "
	if r.Points < r.Of {
		verdict = "lost"
	}
	fmt.Fprintf(out, "%s %3d/%-3d %-12s %s\n", verdict, r.Points, r.Of, r.Trial, visible(r.Says))
	if r.Cure != "" {
		fmt.Fprintf(out, "                          %s\n", r.Cure)
	}
}
