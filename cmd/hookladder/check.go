package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/cmd/hookladder/internal/check"
	"github.com/hookladder/hookladder/cmd/hookladder/internal/term"
	"github.com/hookladder/hookladder/signer"
)

// errPointsLost makes the exit code of a receiver that did something wrong. What it was
// is printed.
var errPointsLost = errors.New("the receiver lost points")

// sampleBody is sent where no body is given. Its name and its values are made up.
const sampleBody = `{"type":"hookladder.check","data":{"order":"order_17","total":1050}}`

func newCheck(s world) *cobra.Command {
	var secret, secretFile, scheme, name, topic, body, bodyFile, contentType string
	var timeout time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check <url>",
		Short: "Try a test receiver with good and bad callbacks, and grade it",
		Long: `Sends a receiver callbacks that it should take and others that it should not: sound,
forged, altered, unsigned, stale, repeated, out of order, slow, large, many at once.
It judges the answers, and says for each point lost what helps. There are thirty
requests, and it takes about three seconds.

Try a test receiver: what is sound it may act on. The secret is the receiver's own,
in --secret-file or --secret, or else SIGNING_SECRET. Give a --topic and a --body or
--body-file that the receiver takes.

The exit code is 0 if it got all points, 1 if it lost some, 4 if nobody answered.`,
		Example: `  SIGNING_SECRET=whsec_... hookladder check http://localhost:3000/hooks
  hookladder check http://localhost:3000/hooks --secret-file ./secret --topic order.paid --body-file order.json
  hookladder check http://localhost:3000/hooks --signature github --secret-file ./secret`,
		Args: oneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := check.Receiver{
				URL: args[0], Header: name, Topic: topic, Body: []byte(body), Type: contentType, Agent: "Hookladder/" + version, Timeout: timeout,
			}
			if u, err := url.Parse(args[0]); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return usagef("%q is no URL as http://localhost:3000/hooks", args[0])
			}
			var err error
			if r.Scheme, r.Secret, err = checkSecret(scheme, verifyFlags{secret: secret, secretFile: secretFile}, s.vars()); err != nil {
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
	flags.StringVar(&secret, "secret", "", "the receiver's secret, of ed25519 the private key (default SIGNING_SECRET)")
	flags.StringVar(&secretFile, "secret-file", "", "a file that holds it")
	flags.StringVar(&scheme, "signature", signer.Standard.String(), "how to sign: "+strings.Join(schemeNames(), ", "))
	flags.StringVar(&name, "signature-header", "", "the header that holds a hmac-hex signature (default x-signature)")
	flags.StringVar(&topic, "topic", "hookladder.check", "the topic of the callbacks")
	flags.StringVar(&body, "body", sampleBody, "their body")
	flags.StringVar(&bodyFile, "body-file", "", "a file that holds the body, - for standard input")
	flags.StringVar(&contentType, "content-type", "application/json", "the content type of the body")
	flags.DurationVar(&timeout, "timeout", 15*time.Second, "how long to wait for each answer")
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

// checkSecret is the one secret to sign with. Of several the first signs.
func checkSecret(name string, f verifyFlags, vars map[string]string) (signer.Scheme, signer.Secret, error) {
	scheme, err := signer.ParseScheme(name)
	if err != nil {
		return "", signer.Secret{}, usagef("--signature: %w", err)
	}
	texts, err := f.secrets(vars)
	if err != nil {
		return "", signer.Secret{}, err
	}
	secret, err := scheme.ParseSecret(texts[0])
	if err != nil {
		return "", signer.Secret{}, usagef("the secret: %w", err)
	}
	return scheme, secret, nil
}

// carryOutCheck makes the trials and prints each as it ends.
func carryOutCheck(cmd *cobra.Command, r check.Receiver, asJSON bool) error {
	out := cmd.OutOrStdout()
	report, err := check.Run(cmd.Context(), r, func(one check.Result) {
		if !asJSON {
			printTrial(out, one)
		}
	})
	switch {
	case err != nil && !errors.Is(err, check.ErrNotTaken):
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

func printTrial(out io.Writer, r check.Result) {
	verdict := "ok  "
	if r.Points < r.Of {
		verdict = "lost"
	}
	fmt.Fprintf(out, "%s %3d/%-3d %-12s %s\n", verdict, r.Points, r.Of, r.Trial, term.Visible(r.Says))
	if r.Cure != "" {
		fmt.Fprintf(out, "                          %s\n", r.Cure)
	}
}
