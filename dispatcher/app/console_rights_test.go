package app_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/internal/httpapi"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// viewer is one kind of visitor in the table of rights.
type viewer int

// The columns of the table. The links are for tenant A, the last for tenant B.
const (
	anAdmin viewer = iota
	aReader
	aReaderOfLengths
	aViewerOfA
	aManagerOfA
	aManagerOfB
	aStranger
	viewers
)

var viewerNames = [viewers]string{"admin", "read", "read without bodies", "view A", "manage A", "link B", "nobody"}

// cells say what each visitor is answered. Plus: it is done, which is 200, 303 to a page of
// the same base, or what the page itself says of its input. 0: it is answered so, and
// nothing was changed. 3: its key lacks the scope, 403. 4: there is nothing, 404. s: the
// sign-in.
type cells string

// Rows that many routes share.
const (
	forAll         cells = "+++++++"
	forReaders     cells = "+++ssss"
	forContents    cells = "++3ssss"
	forAdmins      cells = "+33ssss"
	forLinks       cells = "444+++4" // what is in it is each link's own
	forLinksOfA    cells = "444++44"
	forManagers    cells = "4444++4"
	forManagersOfA cells = "4444+44"
)

// rightsRow is a row of the table.
type rightsRow struct {
	want  cells
	query string     // of a GET
	form  url.Values // of a POST
}

// rightsTable has every route of the console. {id} is a message of tenant A, or one of its
// endpoints, as the path says.
var rightsTable = map[string]rightsRow{
	"GET /console/sign-in":   {want: forAll},
	"POST /console/sign-in":  {want: "+++++++", form: url.Values{"key": {"wrong-key-wrong-key"}}},
	"POST /console/sign-out": {want: forAll},
	"GET /console/{$}":       {want: forReaders},

	"GET /console/messages/{id}":            {want: forReaders},
	"GET /console/messages/{id}/body":       {want: forContents},
	"GET /console/messages/{id}/signature":  {want: forReaders},
	"POST /console/messages/{id}/signature": {want: forReaders, form: url.Values{"to": {"{endpoint}"}, "computed": {"v1,abc"}}},
	"POST /console/messages/{id}/retry":     {want: forAdmins, form: url.Values{"to": {"{endpoint}"}}},
	"POST /console/messages/{id}/cancel":    {want: forAdmins, form: url.Values{"to": {"{endpoint}"}}},

	"GET /console/deliveries":          {want: forReaders},
	"GET /console/deliveries/rows.csv": {want: forReaders},
	"POST /console/deliveries/picked":  {want: forAdmins, form: url.Values{"pick": {"{endpoint}:{message}"}, "do": {"retry"}}},
	"GET /console/dead":                {want: forReaders},
	"GET /console/jobs":                {want: forReaders},
	"GET /console/jobs/new":            {want: forAdmins, query: "?kind=retry&tenant=A"},
	"POST /console/jobs":               {want: forAdmins, form: url.Values{"kind": {"retry"}, "tenant": {"A"}, "status": {"dead"}}},
	"GET /console/jobs/{id}":           {want: forReaders},
	"POST /console/jobs/{id}/stop":     {want: forAdmins},
	"POST /console/jobs/{id}/resume":   {want: forAdmins},

	"GET /console/endpoints":               {want: forReaders},
	"POST /console/endpoints":              {want: forAdmins, form: url.Values{"tenant": {"A"}, "url": {"{taker}"}}},
	"GET /console/endpoints/new":           {want: forAdmins},
	"GET /console/endpoints/{id}":          {want: forReaders},
	"POST /console/endpoints/{id}":         {want: forAdmins, form: url.Values{"description": {"Till of A, new"}}},
	"GET /console/endpoints/{id}/edit":     {want: forAdmins},
	"POST /console/endpoints/{id}/test":    {want: forAdmins},
	"POST /console/endpoints/{id}/pause":   {want: forAdmins},
	"POST /console/endpoints/{id}/resume":  {want: forAdmins},
	"POST /console/endpoints/{id}/retry":   {want: forAdmins},
	"POST /console/endpoints/{id}/confirm": {want: forAdmins, form: url.Values{"url": {"{taker}"}}},
	"GET /console/endpoints/{id}/rotate":   {want: forAdmins},
	"POST /console/endpoints/{id}/rotate":  {want: forAdmins, form: url.Values{"overlap": {"0s"}}},
	"POST /console/endpoints/{id}/secret":  {want: forAdmins},
	"GET /console/endpoints/{id}/delete":   {want: forAdmins},
	"POST /console/endpoints/{id}/delete":  {want: forAdmins},

	"GET /console/failing":              {want: forReaders},
	"POST /console/failing/try":         {want: forAdmins},
	"POST /console/failing/pause":       {want: forAdmins},
	"GET /console/lanes":                {want: forReaders},
	"GET /console/lanes/{lane}":         {want: forReaders},
	"POST /console/lanes/{lane}/pause":  {want: forAdmins},
	"POST /console/lanes/{lane}/resume": {want: forAdmins},
	"GET /console/system":               {want: forReaders},
	"GET /console/audit":                {want: forAdmins},
	"GET /console/links":                {want: forAdmins},
	"POST /console/links":               {want: forAdmins, form: url.Values{"tenant": {"B"}}},
	"POST /console/links/{link}/revoke": {want: forAdmins},

	"GET /console/tail":        {want: forReaders},
	"GET /console/tail/events": {want: forReaders, query: "?outcome=nothing"},

	"GET /link/{token}":                  {want: "4444444"}, // it is a wrong one; TestALinkIsOpenedByAButton opens the right one
	"POST /link/{token}":                 {want: "4444444"},
	"POST /link/sign-out":                {want: forAll},
	"GET /link/{$}":                      {want: forLinks},
	"GET /link/deliveries":               {want: forLinks, query: "?tenant=A"},
	"GET /link/deliveries/rows.csv":      {want: forLinks, query: "?tenant=A"},
	"POST /link/deliveries/picked":       {want: "4444+04", form: url.Values{"pick": {"{endpoint}:{message}"}, "do": {"retry"}}},
	"GET /link/messages/{id}":            {want: forLinksOfA},
	"GET /link/messages/{id}/body":       {want: forLinksOfA},
	"GET /link/messages/{id}/signature":  {want: forLinksOfA},
	"POST /link/messages/{id}/signature": {want: forLinksOfA, form: url.Values{"to": {"{endpoint}"}, "computed": {"v1,abc"}}},
	"POST /link/messages/{id}/retry":     {want: forManagersOfA, form: url.Values{"to": {"{endpoint}"}}},

	"GET /link/jobs/{id}": {want: forLinksOfA},

	"GET /link/endpoints":              {want: forLinks},
	"POST /link/endpoints":             {want: forManagers, form: url.Values{"url": {"{taker}"}}},
	"GET /link/endpoints/new":          {want: forManagers},
	"GET /link/endpoints/{id}":         {want: forLinksOfA},
	"POST /link/endpoints/{id}":        {want: forManagersOfA, form: url.Values{"description": {"Till of A, new"}}},
	"GET /link/endpoints/{id}/edit":    {want: forManagersOfA},
	"POST /link/endpoints/{id}/test":   {want: forManagersOfA},
	"POST /link/endpoints/{id}/pause":  {want: forManagersOfA},
	"POST /link/endpoints/{id}/resume": {want: forManagersOfA},
	"POST /link/endpoints/{id}/retry":  {want: forManagersOfA},
	"GET /link/endpoints/{id}/rotate":  {want: forManagersOfA},
	"POST /link/endpoints/{id}/rotate": {want: forManagersOfA, form: url.Values{"overlap": {"0s"}}},
}

// rightsRig is a process with somebody of each kind, and something of tenant A.
type rightsRig struct {
	*process
	taker string
	who   [viewers]*person
	made  int
	job   string // the id of one about nobody
	jobA  string // the id of one about an endpoint of tenant A
	link  string // likewise
}

func newRightsRig(t testing.TB) *rightsRig {
	t.Helper()
	r := &rightsRig{process: start(t, peoplesOptions(t, redistest.Start(t).URL())), taker: newTestTaker(t)}
	r.who[anAdmin], r.who[aReader], r.who[aReaderOfLengths] = r.signedIn("boss"), r.signedIn("support"), r.signedIn("audit")
	for l, request := range map[viewer]wire.LinkRequest{aViewerOfA: {Tenant: "A"}, aManagerOfA: {Tenant: "A", Manage: true}, aManagerOfB: {Tenant: "B", Manage: true}} {
		path, _ := r.mustLink(request)
		r.who[l] = r.openedLink(path)
	}
	r.who[aStranger] = newPerson(t, r.api)
	job, err := r.boss().StartJob(t.Context(), client.JobRetry, wire.JobRequest{Tenant: []string{"nobody"}})
	require.NoError(t, err)
	r.job = job.ID
	ofA, err := r.boss().RetryEndpoint(t.Context(), r.mustEndpoint("A", r.taker))
	require.NoError(t, err)
	r.jobA = ofA.ID
	link, err := r.boss().CreateLink(t.Context(), wire.LinkRequest{Tenant: "C"})
	require.NoError(t, err)
	r.link = link.ID
	return r
}

// fixture makes an endpoint and a message of tenant A.
func (r *rightsRig) fixture() (endpoint, message string) {
	r.made++
	endpoint, message = r.mustEndpoint("A", r.taker), fmt.Sprintf("msg_%d", r.made)
	r.mustDeliver(message, "A", endpoint)
	return endpoint, message
}

// state is what an action might change of the fixture, as the API has it.
func (r *rightsRig) state(endpoint, message string) string {
	r.t.Helper()
	e, err := r.boss().Endpoint(r.t.Context(), endpoint)
	require.NoError(r.t, err)
	m, err := r.boss().Message(r.t.Context(), message)
	require.NoError(r.t, err)
	secrets, err := r.boss().EndpointSecret(r.t.Context(), endpoint)
	require.NoError(r.t, err)
	text, err := json.Marshal([]any{e, m, secrets.Secrets})
	require.NoError(r.t, err)
	return string(text)
}

func (r *rightsRig) ask(who *person, route console.Route, row rightsRow, endpoint, message string) page {
	r.t.Helper()
	id := message
	switch {
	case strings.Contains(route.Path, "/endpoints/"):
		id = endpoint
	case strings.Contains(route.Path, "/link/jobs/"):
		id = r.jobA
	case strings.Contains(route.Path, "/jobs/"):
		id = r.job
	}
	fill := strings.NewReplacer("{$}", "", "{token}", "no-token", "{id}", id, "{endpoint}", endpoint, "{message}", message, "{lane}", endpoint, "{link}", r.link, "{taker}", r.taker)
	if route.Method == http.MethodGet {
		return who.get(fill.Replace(route.Path) + fill.Replace(row.query))
	}
	form := url.Values{}
	for name, values := range row.form {
		for _, v := range values {
			form.Add(name, fill.Replace(v))
		}
	}
	return who.act(fill.Replace(route.Path), form)
}

// behind is the page behind an action's redirect, if it has one of its own.
func (r *rightsRig) behind(who *person, cell byte, got page, about string) page {
	r.t.Helper()
	require.Equal(r.t, http.StatusSeeOther, got.StatusCode, "%s: %s", about, got.text)
	if to := got.Header.Get("Location"); strings.Contains(to, "shown=") || cell == '4' { // where it says why
		return who.get(to)
	}
	return got
}

// requireCell fails unless an answer is that of a cell.
func requireCell(t testing.TB, cell byte, base string, got page, about string) {
	t.Helper()
	switch cell {
	case '+', '0':
		to := got.Header.Get("Location")
		require.NotContains(t, []int{http.StatusForbidden, http.StatusNotFound}, got.StatusCode, "%s: %s", about, got.text)
		require.Less(t, got.StatusCode, 500, "%s: %s", about, got.text)
		if got.StatusCode >= 300 && got.StatusCode < 400 {
			require.True(t, strings.HasPrefix(to, base+"/"), "%s leads to %s", about, to)
		}
	case '3':
		require.Equal(t, http.StatusForbidden, got.StatusCode, about)
	case '4':
		require.Equal(t, http.StatusNotFound, got.StatusCode, about)
	case 's':
		require.True(t, got.toSignIn(), "%s: %d", about, got.StatusCode)
	default:
		require.FailNow(t, "no such cell", "%s: %c", about, cell)
	}
}

func TestTheRightsOfEachRoute(t *testing.T) {
	r := newRightsRig(t)
	routes := map[string]console.Route{}
	var missing []string
	for _, route := range console.Routes() {
		name := route.Method + " " + route.Path
		routes[name] = route
		if _, ok := rightsTable[name]; !ok {
			missing = append(missing, name)
		}
	}
	require.Empty(t, missing, "add these routes to rightsTable")
	endpoint, message := r.fixture()
	changed := false // by an action that was allowed
	secret := `{"secret_of":"A"}`
	for name, row := range rightsTable {
		route, ok := routes[name]
		require.True(t, ok, "%s is no route any more", name)
		require.Len(t, row.want, int(viewers), name)
		base := "/" + strings.Split(route.Path, "/")[1]
		fresh := func() { // a fixture that no allowed action has changed
			if changed {
				endpoint, message = r.fixture()
				changed = false
			}
		}
		ask := func(l viewer) {
			about := name + " by " + viewerNames[l]
			who := r.who[l]
			if strings.HasSuffix(name, "/sign-out") {
				other := *who
				other.client = newPerson(t, r.api).client // the session goes on
				who = &other
			}
			cell := row.want[l]
			got := r.ask(who, route, row, endpoint, message)
			if route.Method == http.MethodPost {
				got = r.behind(who, cell, got, about)
			}
			requireCell(t, cell, base, got, about)
			if cell != '+' || l == aReaderOfLengths || l == aManagerOfB || l == aStranger {
				require.NotContains(t, got.text, secret, about)
				require.NotContains(t, got.text, "secret_of", about)
			}
			if cell != '+' || l == aManagerOfB || l == aStranger {
				require.NotContains(t, got.text, "Till of A", about)
				require.NotContains(t, got.text, "order-of-A", about)
			}
		}
		acts := func(l viewer) bool { return row.want[l] == '+' && route.Method == http.MethodPost }
		fresh()
		before := r.state(endpoint, message)
		for l := range viewers {
			if !acts(l) {
				ask(l)
			}
		}
		require.Equal(t, before, r.state(endpoint, message), "%s: whoever may not do it, or only reads, has changed nothing", name)
		for l := range viewers {
			if acts(l) {
				fresh()
				ask(l)
				changed = true
			}
		}
	}
}

func TestWithoutBodiesTheAPITellsLengthAndHash(t *testing.T) {
	r := newRightsRig(t)
	_, message := r.fixture()
	got := r.who[aReader].get("/console/messages/" + message)
	require.Contains(t, got.text, "secret_of")
	got = r.who[aReaderOfLengths].get("/console/messages/" + message)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.NotContains(t, got.text, "secret_of")
	require.Contains(t, got.text, "17 B")
	require.Contains(t, got.text, "d189464f0e89", "its SHA-256")
}

// A page that names an operation that the API does not have would fail where it is shown.
func TestPagesNameOperationsOfTheAPI(t *testing.T) {
	require.NoError(t, fs.WalkDir(os.DirFS("../internal/console"), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".html") && !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile("../internal/console/" + path)
		for _, named := range regexp.MustCompile(`\bMay[ (]"([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			_, known := httpapi.May(dispatcher.Browser{}, named[1])
			require.True(t, known, "%s: %s", path, named[1])
		}
		return err
	}))
	for _, route := range console.Routes() {
		if route.Needs != "" {
			_, known := httpapi.May(dispatcher.Browser{}, route.Needs)
			require.True(t, known, "%s %s: %s", route.Method, route.Path, route.Needs)
		}
	}
}
