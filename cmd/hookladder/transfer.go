package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// The formats of a file.
const (
	formatJSONLines = "jsonl"
	formatCSV       = "csv"
)

// formatOf returns the format of a file with that name.
func formatOf(name string) string {
	if strings.HasSuffix(strings.ToLower(name), ".csv") {
		return formatCSV
	}
	return formatJSONLines
}

// endpointColumns are the fields of an endpoint in a file, in the order of a CSV. plainColumns has those
// that are texts. The others are JSON.
var endpointColumns, plainColumns = endpointColumnsOf(reflect.TypeFor[wire.Endpoint]())

func endpointColumnsOf(of reflect.Type) (names []string, plain map[string]bool) {
	plain = map[string]bool{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names, plain[name] = append(names, name), f.Type.Kind() == reflect.String
	}
	return names, plain
}

// endpointExport writes endpoints.
type endpointExport struct {
	Client  *client.Client
	Tenants []string // none: all
	Format  string
}

// exportedEndpoints counts the endpoints of an export, and the parts that are missing in the file.
type exportedEndpoints struct {
	Endpoints, NoUID, NoSecret, Headers int
}

// Run writes the endpoints to out.
func (x *endpointExport) Run(ctx context.Context, out io.Writer) (n exportedEndpoints, err error) {
	buffered := bufio.NewWriter(out)
	write, end := x.writer(buffered)
	secrets := true
	for view, err := range x.Client.EachEndpoint(ctx, client.EndpointFilter{Tenants: x.Tenants}) {
		if err != nil {
			return n, err
		}
		e := view.Endpoint
		if secrets {
			if e.Secret, err = x.secret(ctx, view.ID); errors.Is(err, client.ErrDenied) {
				secrets = false
			} else if err != nil {
				return n, err
			}
		}
		n.count(&e)
		if err := write(&e); err != nil {
			return n, err
		}
	}
	return n, errors.Join(end(), buffered.Flush())
}

// secret returns the current secret of an endpoint. It is empty if the endpoint was deleted
// in the meantime.
func (x *endpointExport) secret(ctx context.Context, id string) (string, error) {
	all, err := x.Client.EndpointSecret(ctx, id)
	if errors.Is(err, client.ErrNotFound) || err == nil && len(all.Secrets) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return all.Secrets[0].Secret, nil
}

func (n *exportedEndpoints) count(e *wire.Endpoint) {
	n.Endpoints++
	if e.UID == "" {
		n.NoUID++
	}
	if e.Secret == "" {
		n.NoSecret++
	}
	if len(e.Headers) > 0 {
		n.Headers++
	}
}

// writer returns a function that writes an endpoint, and one that ends the file.
func (x *endpointExport) writer(out io.Writer) (write func(*wire.Endpoint) error, end func() error) {
	if x.Format != formatCSV {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return func(e *wire.Endpoint) error { return enc.Encode(e) }, func() error { return nil }
	}
	w := wire.NewCSV(out, endpointColumns)
	return func(e *wire.Endpoint) error {
		row, err := endpointRow(e)
		if err != nil {
			return err
		}
		return w.Write(row)
	}, w.Flush
}

// endpointRow returns the cells of an endpoint. A cell is a text, or JSON for other values.
func endpointRow(e *wire.Endpoint) ([]string, error) {
	fields, err := fieldsOf(e)
	if err != nil {
		return nil, err
	}
	row := make([]string, len(endpointColumns))
	for i, name := range endpointColumns {
		var text string
		if raw, ok := fields[name]; ok && json.Unmarshal(raw, &text) == nil {
			row[i] = text
		} else {
			row[i] = string(raw)
		}
	}
	return row, nil
}

// fieldsOf returns the fields of an endpoint that have a value.
func fieldsOf(e *wire.Endpoint) (fields map[string]json.RawMessage, err error) {
	text, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("encode endpoint %s: %w", e.UID, err)
	}
	return fields, nil
}

// endpointImport makes the server have the endpoints of a file. It changes only what differs, so a
// second run after an interruption has nothing left to do. A dry run makes the same calls, but
// asks the server to check them only.
type endpointImport struct {
	Client *client.Client
	Format string
	From   string // the system whose saved answers the file has; empty: none, see Format
	DryRun bool

	Prune  bool
	Tenant *string // of the endpoints that are pruned; nil: all
	Yes    bool    // prunes also more than a tenth

	Say  func(format string, args ...any) // reports a change or a wrong line
	Seen func(n importedEndpoints)        // reports the progress after each line; may be nil

	lines map[string]int // of the file, by uid
}

// importedEndpoints counts the endpoints of an import.
type importedEndpoints struct {
	Created, Changed, Left, Failed int
	Pruned, Cancelled              int // endpoints deleted, and their waiting deliveries
}

// String returns the counts in one line.
func (n importedEndpoints) String() string {
	text := fmt.Sprintf("%d created, %d changed, %d unchanged, %d wrong", n.Created, n.Changed, n.Left, n.Failed)
	if n.Pruned > 0 {
		text += fmt.Sprintf(", %d deleted with %d waiting deliveries", n.Pruned, n.Cancelled)
	}
	return text
}

// errImportLines means that some lines were not imported. They were reported.
var errImportLines = errors.New("some lines were not imported")

// errManyDeleted means that Prune would delete more than a tenth of the endpoints.
var errManyDeleted = errors.New("pass --yes to delete more than a tenth of the endpoints")

// Run reads the file line by line. A wrong line is reported, and the others are imported.
func (m *endpointImport) Run(ctx context.Context, in io.Reader) (n importedEndpoints, err error) {
	next, err := m.entries(in)
	if err != nil {
		return n, err
	}
	m.lines = map[string]int{}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, fmt.Errorf("read the file: %w", err)
		}
		if err := m.one(ctx, &e, &n); err != nil {
			return n, fmt.Errorf("stopped at %s %d, run it again: %w", m.unit(), e.line, err)
		}
		if m.Seen != nil {
			m.Seen(n)
		}
	}
	switch {
	case n.Failed > 0:
		return n, errImportLines // also without a prune, because a wrong line may have named any endpoint
	case m.Prune:
		return n, m.prune(ctx, &n)
	}
	return n, nil
}

// entries reads the file. It reports first which parts of another system do not carry over.
func (m *endpointImport) entries(in io.Reader) (next func() (fileLine, error), err error) {
	if m.From == "" {
		return importEntries(in, m.Format)
	}
	next, lost, err := foreignEntries(in, m.From, mostAnswers)
	if err != nil {
		return nil, fmt.Errorf("read the answers of %s: %w", m.From, err)
	}
	for _, kind := range slices.Sorted(maps.Keys(lost)) {
		m.Say("does not carry over: %s (%d)", kind, lost[kind])
	}
	return next, nil
}

// unit names the parts of the file that are counted.
func (m *endpointImport) unit() string {
	if m.From != "" {
		return "endpoint"
	}
	return "line"
}

// one imports a line. It returns only errors that concern the other lines too.
func (m *endpointImport) one(ctx context.Context, e *fileLine, n *importedEndpoints) error {
	first, again := m.lines[e.endpoint.UID]
	if e.err == nil && again { // the two would undo each other in each run
		e.err = fmt.Errorf("$.uid: is the same as in %s %d", m.unit(), first)
	}
	err := e.err
	if err == nil {
		m.lines[e.endpoint.UID] = e.line
		err = m.apply(ctx, e, n)
	}
	var p *client.Problem
	switch {
	case err == nil:
		return nil
	case e.err == nil && (!errors.As(err, &p) || p.Status == 401 || p.Status == 403 || p.Status >= 500):
		return err
	}
	n.Failed++
	place := fmt.Sprintf("%s %d: ", m.unit(), e.line)
	if e.endpoint.UID != "" {
		place += e.endpoint.UID + ": "
	}
	for text := range strings.Lines(err.Error()) {
		m.Say("%s%s", place, strings.TrimSpace(text))
	}
	return nil
}

// apply creates or changes the endpoint of a line.
func (m *endpointImport) apply(ctx context.Context, e *fileLine, n *importedEndpoints) error {
	view, err := m.Client.Endpoint(ctx, e.endpoint.UID)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return m.create(ctx, e, n)
	case err != nil:
		return err
	}
	patch, err := endpointDifferences(e, &view.Endpoint)
	if err != nil {
		return err
	}
	rotate, err := m.otherSecret(ctx, e)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(patch))
	if len(patch) > 0 {
		changed, err := m.patch(ctx, e, patch)
		switch {
		case err != nil:
			return err
		case changed.UpdatedAt.Equal(view.UpdatedAt.Time):
			names = nil // its headers have these values already
		}
	}
	if rotate {
		if err := m.rotate(ctx, e); err != nil {
			return err
		}
		names = append(names, "secret")
	}
	if len(names) == 0 {
		n.Left++
		return nil
	}
	n.Changed++
	m.Say("change %s: %s", e.endpoint.UID, strings.Join(names, ", "))
	return nil
}

func (m *endpointImport) create(ctx context.Context, e *fileLine, n *importedEndpoints) error {
	create := m.Client.CreateEndpoint
	if m.DryRun {
		create = m.Client.TryCreateEndpoint
	}
	if _, _, err := create(ctx, &e.endpoint); err != nil {
		return err
	}
	n.Created++
	m.Say("create %s", e.endpoint.UID)
	return nil
}

func (m *endpointImport) patch(ctx context.Context, e *fileLine, patch map[string]any) (wire.EndpointView, error) {
	if patch["headers"] != nil && e.endpoint.URL != "" {
		patch["url"] = e.endpoint.URL // the headers are for this one, whatever a link has set meanwhile
	}
	if m.DryRun {
		return m.Client.TryPatchEndpoint(ctx, e.endpoint.UID, patch)
	}
	return m.Client.PatchEndpoint(ctx, e.endpoint.UID, patch)
}

// rotate sets the secret of a line. A dry run checks it as the secret of a new endpoint, because
// the signature of the line, and not the present one, decides which secrets are valid.
func (m *endpointImport) rotate(ctx context.Context, e *fileLine) error {
	if m.DryRun {
		unnamed := e.endpoint
		unnamed.UID = ""
		unnamed.Headers = nil // their hidden values are for the endpoint that is there
		_, _, err := m.Client.TryCreateEndpoint(ctx, &unnamed)
		if p := (*client.Problem)(nil); errors.As(err, &p) {
			return fmt.Errorf("rotate secret of %s: %w", e.endpoint.UID, p)
		}
		return err
	}
	_, err := m.Client.RotateSecret(ctx, e.endpoint.UID, wire.Rotation{Secret: e.endpoint.Secret})
	return err
}

// otherSecret reports whether the line has another secret than the endpoint.
func (m *endpointImport) otherSecret(ctx context.Context, e *fileLine) (bool, error) {
	if e.endpoint.Secret == "" {
		return false, nil
	}
	all, err := m.Client.EndpointSecret(ctx, e.endpoint.UID)
	if err != nil {
		return false, err
	}
	return len(all.Secrets) == 0 || all.Secrets[0].Secret != e.endpoint.Secret, nil
}

// endpointDefaults are the values that the API leaves out, or always returns.
var endpointDefaults = map[string]string{
	"topics": `["*"]`, "kind": `"push"`, "signature": `"standard"`, "ordered": "false", "signature_header": `"x-signature"`,
	"signature_hash": `"sha256"`, "signature_encoding": `"hex"`, "signature_content": `"body"`,
}

// endpointDifferences returns the patch that makes the stored endpoint equal to the line. A field that
// the line leaves out gets its default, but for disabled, which is also set by a receiver.
func endpointDifferences(e *fileLine, is *wire.Endpoint) (map[string]any, error) {
	want, err := fieldsOf(&e.endpoint)
	if err != nil {
		return nil, err
	}
	have, err := fieldsOf(is)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{}
	for _, name := range endpointColumns {
		switch {
		case name == "uid" || name == "secret":
		case name == "disabled" && e.given["disabled"] == nil:
		case name == "headers":
			if changed := headerPatch(e.endpoint.Headers, is.Headers); len(changed) > 0 {
				patch[name] = changed
			}
		case name == "metadata":
			if !maps.Equal(e.endpoint.Metadata, is.Metadata) {
				patch[name] = textPatch(e.endpoint.Metadata, is.Metadata)
			}
		case fieldText(name, want) == fieldText(name, have):
		case want[name] == nil:
			patch[name] = nil
		default:
			patch[name] = want[name]
		}
	}
	return patch, nil
}

// fieldText returns the text of a field for a comparison. The default is empty.
func fieldText(name string, fields map[string]json.RawMessage) string {
	if text := string(fields[name]); text != endpointDefaults[name] {
		return text
	}
	return ""
}

// headerPatch returns the headers to set, and null for those to remove. The API hides their
// values, so a value in a line is always set. *** keeps the value.
func headerPatch(want, have map[string]string) map[string]any {
	patch := textPatch(want, have)
	for name, text := range want {
		if _, ok := have[name]; ok && text == wire.Hidden {
			delete(patch, name)
		}
	}
	return patch
}

func textPatch(want, have map[string]string) map[string]any {
	patch := map[string]any{}
	for name := range have {
		if _, ok := want[name]; !ok {
			patch[name] = nil
		}
	}
	for name, text := range want {
		patch[name] = text
	}
	return patch
}

// prune deletes the endpoints with a uid that the file does not name. It keeps those
// without one.
func (m *endpointImport) prune(ctx context.Context, n *importedEndpoints) error {
	var f client.EndpointFilter
	if m.Tenant != nil {
		f.Tenants = []string{*m.Tenant}
	}
	var gone []string
	of, waiting := 0, 0
	for e, err := range m.Client.EachEndpoint(ctx, f) {
		if err != nil {
			return err
		}
		if e.UID == "" {
			continue
		}
		of++
		if m.lines[e.UID] == 0 {
			gone = append(gone, e.UID)
			waiting += e.Waiting
			m.Say("delete %s: %d waiting", e.UID, e.Waiting)
		}
	}
	if m.DryRun {
		of += n.Created // the import lists them too
	}
	if len(gone)*10 > of && !m.Yes {
		return fmt.Errorf("%d of %d endpoints are not in the file, and %d deliveries wait for them: %w", len(gone), of, waiting, errManyDeleted)
	}
	if m.DryRun {
		n.Pruned, n.Cancelled = len(gone), waiting
		return nil
	}
	for _, uid := range gone {
		cancelled, err := m.Client.DeleteEndpoint(ctx, uid)
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
		n.Pruned++
		n.Cancelled += cancelled
	}
	return nil
}

// fileLine is one endpoint of a file. err is the reason why its line is not valid.
type fileLine struct {
	line     int
	endpoint wire.Endpoint
	given    map[string]json.RawMessage // the fields of the line, without null
	err      error
}

// maxLine is the largest line in bytes. An endpoint with all its fields has less than 100 KiB.
const maxLine = 1 << 20

// importEntries reads a file line by line. It returns io.EOF after the last one.
func importEntries(in io.Reader, format string) (next func() (fileLine, error), err error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if format == formatCSV {
		return csvEntries(buffered)
	}
	line := 0
	return func() (fileLine, error) {
		for {
			text, long, err := readImportLine(buffered)
			line++
			switch {
			case err != nil:
				return fileLine{}, err
			case long:
				return fileLine{line: line, err: fmt.Errorf("has more than %d bytes", maxLine)}, nil
			case len(bytes.TrimSpace(text)) > 0:
				return parseImportLine(line, text), nil
			}
		}
	}, nil
}

// readImportLine returns a line. Of one that is too long, it returns only that.
func readImportLine(in *bufio.Reader) (text []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxLine; !long {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(text) > 0 || long):
			return text, long, nil
		default:
			return text, long, err
		}
	}
}

func parseImportLine(line int, text []byte) fileLine {
	e := fileLine{line: line}
	if err := json.Unmarshal(text, &e.given); err != nil {
		e.err = errors.New("is not a JSON object")
		return e
	}
	e.check()
	return e
}

// check decodes the fields one by one, so that an error names its field.
func (e *fileLine) check() {
	for name, raw := range e.given {
		switch {
		case !slices.Contains(endpointColumns, name):
			e.err = errors.Join(e.err, fmt.Errorf("$.%s: is not a field of an endpoint; known are %s", name, strings.Join(endpointColumns, ", ")))
			continue
		case string(raw) == "null":
			delete(e.given, name)
			continue
		}
		one, err := json.Marshal(map[string]json.RawMessage{name: raw})
		if err == nil {
			err = json.Unmarshal(one, &e.endpoint)
		}
		if err != nil {
			e.err = errors.Join(e.err, fmt.Errorf("$.%s: is not valid: %s", name, strings.TrimPrefix(err.Error(), "json: ")))
		}
	}
	if e.err == nil && e.endpoint.UID == "" {
		e.err = errors.New("$.uid: is needed, because endpoints match by it")
	}
}

// csvEntries reads the header line, which names the fields.
func csvEntries(in io.Reader) (func() (fileLine, error), error) {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	names, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header line: %w", err)
	}
	names = slices.Clone(names)
	names[0] = strings.TrimPrefix(names[0], "\ufeff") // of a spreadsheet
	for _, name := range names {
		if !slices.Contains(endpointColumns, name) {
			return nil, fmt.Errorf("the header line has %q, which is not a field of an endpoint", name)
		}
	}
	return func() (fileLine, error) {
		row, err := r.Read()
		line, _ := r.FieldPos(0)
		var wrong *csv.ParseError
		switch {
		case errors.As(err, &wrong):
			return fileLine{line: wrong.StartLine, err: wrong.Err}, nil
		case err != nil:
			return fileLine{}, err
		}
		e := fileLine{line: line, given: map[string]json.RawMessage{}}
		for i, cell := range row {
			if cell != "" {
				e.given[names[i]] = cellValue(names[i], cell)
			}
		}
		e.check()
		return e, nil
	}, nil
}

// cellValue returns the JSON of a cell. It removes the mark that keeps a spreadsheet from
// reading a formula.
func cellValue(name, cell string) json.RawMessage {
	if len(cell) > 1 && cell[0] == '\'' && strings.ContainsRune("=+-@\t\r", rune(cell[1])) {
		cell = cell[1:]
	}
	if !plainColumns[name] && json.Valid([]byte(cell)) {
		return json.RawMessage(cell)
	}
	text, _ := json.Marshal(cell) // never fails for a text
	return text
}
