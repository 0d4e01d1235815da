package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookladder/hookladder/dispatcher/wire"
	"github.com/hookladder/hookladder/ladder"
)

// endpointFlags are the flags of create and update: the fields of an endpoint.
type endpointFlags struct {
	texts             map[string]*string // by the field's name
	topics, allowed   []string
	headers, metadata []string
	maxInFlight       int
	ordered, trace    bool
	disabled          bool
	pull              bool // of a new endpoint
}

// endpointTexts are the fields that have a text.
var endpointTexts = [][2]string{
	{"url", "its URL"},
	{"description", "a description"},
	{"signature", "the signature scheme: " + strings.Join(schemeNames(), ", ")},
	{"signature_header", formUsage[0]},
	{"signature_hash", formUsage[1]},
	{"signature_encoding", formUsage[2]},
	{"signature_prefix", formUsage[3]},
	{"signature_content", formUsage[4]},
	{"ladder", "the waits between attempts, such as 1s,5s,1m"},
	{"timeout", "the time limit of one attempt, 1s to 60s"},
	{"disable_after", "disable it after a time without a successful attempt, such as 5d; 0s: never (default DISABLE_AFTER)"},
	{"rate", "the most attempts in a time, such as 20/s, 600/m or 50/h"},
	{"success", "the responses that count as success: statuses such as 2xx,404, or a success rule as JSON"},
}

// unsettable are the fields of an endpoint that have a default.
var unsettable = []string{
	"topics", "topics_allowed", "description", "metadata", "signature", "signature_header", "signature_hash", "signature_encoding", "signature_prefix", "signature_content",
	"headers", "ladder", "timeout", "max_in_flight", "rate", "ordered", "trace", "success", "disabled",
	"disable_after",
}

func (f *endpointFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.texts = map[string]*string{}
	for _, text := range endpointTexts {
		f.texts[text[0]] = flags.String(flagOf(text[0]), "", text[1])
	}
	flags.StringArrayVar(&f.topics, "topic", nil, "a topic that it receives, such as payment.paid, payment.* or *; may be repeated (default of a new one: *)")
	flags.StringArrayVar(&f.allowed, "allow-topic", nil, "a pattern of topics that people with a link may choose; may be repeated (default: the topics that you set)")
	flags.StringArrayVar(&f.headers, "header", nil, "an additional header, \"name: value\"; may be repeated")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "your own metadata, \"name=text\"; may be repeated")
	flags.IntVar(&f.maxInFlight, "max-in-flight", 0, "the most attempts at once (default ENDPOINT_MAX_IN_FLIGHT)")
	flags.BoolVar(&f.ordered, "ordered", false, "deliver one at a time and in order; a failing delivery blocks the others")
	flags.BoolVar(&f.trace, "trace", false, "send the header traceparent to its receiver")
	flags.BoolVar(&f.disabled, "disabled", false, "deliver nothing to it: its new deliveries are dead at once")
	completes(cmd, "signature", schemeNames()...)
	completesForm(cmd)
}

// flagOf returns the flag of a field.
func flagOf(field string) string { return strings.ReplaceAll(field, "_", "-") }

// fields returns the fields of the flags that were passed. The API checks them.
func (f *endpointFlags) fields(cmd *cobra.Command) (map[string]any, error) {
	fields := map[string]any{}
	given := cmd.Flags().Changed
	for name, text := range f.texts {
		if given(flagOf(name)) {
			fields[name] = *text
		}
	}
	var err error
	if given("success") {
		if fields["success"], err = successField(*f.texts["success"]); err != nil {
			return nil, err
		}
	}
	if given("ladder") {
		if fields["ladder"], err = ladder.Parse(*f.texts["ladder"]); err != nil {
			return nil, usagef("--ladder: %w", err)
		}
	}
	if given("topic") {
		fields["topics"] = f.topics
	}
	if given("allow-topic") {
		fields["topics_allowed"] = f.allowed
	}
	if given("header") {
		if fields["headers"], err = pairs("header", ":", f.headers); err != nil {
			return nil, err
		}
	}
	if given("metadata") {
		if fields["metadata"], err = pairs("metadata", "=", f.metadata); err != nil {
			return nil, err
		}
	}
	if given("max-in-flight") {
		fields["max_in_flight"] = f.maxInFlight
	}
	if given("ordered") {
		fields["ordered"] = f.ordered
	}
	if given("trace") {
		fields["trace"] = f.trace
	}
	if given("disabled") {
		fields["disabled"] = f.disabled
	}
	return fields, nil
}

// endpoint returns the new endpoint of the flags.
func (f *endpointFlags) endpoint(cmd *cobra.Command, names map[string]string, secretFile string) (*wire.Endpoint, error) {
	fields, err := f.fields(cmd)
	if err != nil {
		return nil, err
	}
	if f.pull {
		fields["kind"] = "pull"
	} else if fields["url"] == nil {
		return nil, usagef("create needs --url, or --pull; see hookladder endpoints create --help")
	}
	for name, text := range names {
		if text != "" {
			fields[name] = text
		}
	}
	if secretFile != "" {
		if fields["secret"], err = readSecretFile(secretFile, cmd.InOrStdin()); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode endpoint: %w", err)
	}
	var e wire.Endpoint
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, usageError{err}
	}
	return &e, nil
}

// patch returns the change of the flags. A field to unset is null in it.
func (f *endpointFlags) patch(cmd *cobra.Command, unset []string) (map[string]any, error) {
	patch, err := f.fields(cmd)
	if err != nil {
		return nil, err
	}
	for _, name := range unset {
		name = strings.ReplaceAll(name, "-", "_")
		if _, given := patch[name]; given {
			return nil, usagef("--unset %s: another flag sets it", name)
		}
		patch[name] = nil
	}
	if len(patch) == 0 {
		return nil, usagef("update needs a flag that changes something; see hookladder endpoints update --help")
	}
	return patch, nil
}

// pairs returns the names and texts of a flag. A name without a text is null, and an update
// removes it.
func pairs(flag, between string, given []string) (map[string]any, error) {
	found := map[string]any{}
	for _, one := range given {
		name, text, ok := strings.Cut(one, between)
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		if !ok || name == "" {
			return nil, usagef("--%s %q: must be as in \"name%s text\"", flag, one, between)
		}
		found[name] = nil
		if text != "" {
			found[name] = text
		}
	}
	return found, nil
}

// reachedAt returns the URL of an endpoint, or its kind if it has none.
func reachedAt(e *wire.EndpointView, url string) string {
	if e.Kind == "pull" {
		return "(pull)"
	}
	return url
}

// maxSecretFile is far larger than any secret.
const maxSecretFile = 4 << 10

// printEndpoint prints the fields of an endpoint that are set.
func printEndpoint(out io.Writer, e wire.EndpointView) {
	fmt.Fprintln(out, e.ID)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "  %-13s %s\n", name, text)
		}
	}
	row("uid", e.UID)
	row("tenant", e.Tenant)
	row("to", reachedAt(&e, e.URL))
	row("topics", strings.Join(e.Topics, " "))
	row("for links", strings.Join(e.TopicsAllowed, " "))
	row("description", e.Description)
	for _, name := range slices.Sorted(maps.Keys(e.Metadata)) {
		row("metadata", name+"="+e.Metadata[name])
	}
	state := e.State
	if e.DisabledReason != "" {
		state += " since " + whenText(e.DisabledAt) + " (" + e.DisabledReason + ")"
	}
	if e.Ordered {
		state += ", ordered"
	}
	if e.Trace {
		state += ", with traceparent"
	}
	row("state", fmt.Sprintf("%s, %d in flight, %d waiting", state, e.InFlight, e.Waiting))
	if !e.FailingSince.IsZero() {
		row("failing since", whenText(e.FailingSince))
	}
	if e.LastFailure != nil {
		row("last failure", failureText(e.LastFailure))
	}
	row("signature", strings.Join(strings.Fields(strings.Join([]string{e.Signature, e.SignatureHeader, e.SignatureHash, e.SignatureEncoding, e.SignaturePrefix, e.SignatureContent}, " ")), " "))
	row("secret", e.Secret)
	row("fingerprint", e.SecretFingerprint)
	if e.Ladder != nil {
		row("ladder", e.Ladder.String())
	}
	if e.Timeout != 0 {
		row("timeout", ladder.FormatDuration(time.Duration(e.Timeout)))
	}
	if e.MaxInFlight != 0 {
		row("max in flight", fmt.Sprint(e.MaxInFlight))
	}
	row("rate", e.Rate)
	if e.DisableAfter != nil {
		row("disable after", ladder.FormatDuration(time.Duration(*e.DisableAfter)))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		row("header", name)
	}
	if e.HeadersHeld {
		row("held headers", strings.Join(e.HeldHeaders, ", ")+": not sent, because a link set this URL; to send them: hookladder endpoints confirm")
	}
	row("now sent", strings.Join(e.ReleasedHeaders, ", "))
	row("created", whenText(e.CreatedAt))
}

func newEndpointsExport(s world) *cobra.Command {
	var to clientFlags
	var format fileFormat
	x := endpointExport{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all endpoints as JSON Lines or CSV",
		Long: `Writes endpoints as JSON Lines, or as CSV with --csv, for hookladder endpoints
import. The file has the current secrets if the key has the scope admin. Values of
headers are never in it: *** stands for each. A line on standard error says what is
missing.`,
		Example: `  umask 077; hookladder endpoints export > endpoints.jsonl
  hookladder endpoints export --tenant shop_42 --csv > endpoints.csv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if x.Format, err = format.of(""); err != nil {
				return err
			}
			if x.Client, err = to.client(); err != nil {
				return err
			}
			n, err := x.Run(cmd.Context(), cmd.OutOrStdout())
			out := cmd.ErrOrStderr()
			fmt.Fprintf(out, "endpoints: %d\n", n.Endpoints)
			for _, missing := range []struct {
				of   int
				says string
			}{
				{n.NoSecret, "without their secrets: the key needs the scope admin"},
				{n.Headers, "with headers whose values are hidden: write them into the file"},
				{n.NoUID, "without a uid, by which an import matches them"},
			} {
				if missing.of > 0 {
					fmt.Fprintf(out, "%d %s\n", missing.of, missing.says)
				}
			}
			return err
		},
	}
	to.add(cmd, s)
	cmd.Flags().StringArrayVar(&x.Tenants, "tenant", nil, "only endpoints of this tenant; may be repeated")
	format.add(cmd)
	return cmd
}

const importHelp = `Creates the endpoints of a file, and changes those whose fields differ. Endpoints match
by their uid. The file is JSON Lines or CSV, as endpoints export writes it; - is standard
input. A field that a line leaves out gets its default. The secret and disabled are kept.

A wrong line is reported with its number and field, and the others are imported. After an
interruption run it again: it changes only what differs. With --dry-run the server checks
each line, and nothing is changed.

--prune deletes the endpoints that have a uid and are not in the file, and cancels their
waiting deliveries. It deletes nothing if a line is wrong.

With --from the file has the saved answers of Svix, Convoy or Outpost, as /docs/migrate.md
saves them. Parts that do not carry over are counted first.

The exit code is 0 if all lines were imported, 1 if some were not, and 4 if the server
can't be reached.`

func newEndpointsImport(s world) *cobra.Command {
	var to clientFlags
	var tenant string
	var all bool
	var format fileFormat
	m := endpointImport{}
	cmd := &cobra.Command{
		Use:   "import <file>",
		Short: "Create and change endpoints by a file",
		Long:  importHelp,
		Example: `  hookladder endpoints import endpoints.jsonl --dry-run
  hookladder endpoints import endpoints.csv --prune --tenant shop_42
  hookladder endpoints import svix.jsonl --from svix --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("import needs one file, - for standard input; see %s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			switch given := cmd.Flags().Changed("tenant"); {
			case m.From != "" && !slices.Contains(importSources, m.From):
				return usagef("--from %q: must be one of %s", m.From, strings.Join(importSources, ", "))
			case m.Prune && given == all:
				return usagef("--prune needs --tenant or --all-tenants")
			case !m.Prune && (given || all || m.Yes):
				return usagef("--tenant, --all-tenants and --yes are for --prune")
			case given:
				m.Tenant = &tenant
			}
			if m.Format, err = format.of(args[0]); err != nil {
				return err
			}
			if m.Client, err = to.client(); err != nil {
				return err
			}
			return importFile(cmd, &m, args[0])
		},
	}
	to.add(cmd, s)
	flags := cmd.Flags()
	flags.BoolVar(&m.DryRun, "dry-run", false, "report what would be created, changed and deleted, and change nothing")
	flags.BoolVar(&m.Prune, "prune", false, "delete the endpoints that are not in the file")
	flags.StringVar(&tenant, "tenant", "", "prune endpoints of this tenant only; empty: those without a tenant")
	flags.BoolVar(&all, "all-tenants", false, "prune endpoints of all tenants")
	flags.BoolVar(&m.Yes, "yes", false, "prune also more than a tenth of them")
	flags.StringVar(&m.From, "from", "", "the system whose answers the file has: svix, convoy or outpost")
	completes(cmd, "from", importSources...)
	format.add(cmd)
	return cmd
}

func importFile(cmd *cobra.Command, m *endpointImport, name string) error {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return usageError{err}
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	m.Say = func(format string, args ...any) {
		fmt.Fprintln(cmd.OutOrStdout(), visible(fmt.Sprintf(format, args...)))
	}
	if out := cmd.ErrOrStderr(); isTerminal(out) && !isTerminal(cmd.OutOrStdout()) {
		m.Seen = func(n importedEndpoints) { overwrite(out, n.String()) }
	}
	n, err := m.Run(cmd.Context(), in)
	if m.DryRun {
		fmt.Fprint(cmd.ErrOrStderr(), "nothing was changed: ")
	}
	fmt.Fprintln(cmd.ErrOrStderr(), n)
	return err
}
