package consoleapi_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/console/consoleapi"
)

func TestWhatEachVisitorMayDo(t *testing.T) {
	all := consoleapi.Rights
	see := []consoleapi.Right{consoleapi.Open, consoleapi.See, consoleapi.Contents}
	for name, c := range map[string]struct {
		v   consoleapi.Visitor
		may []consoleapi.Right
	}{
		"an admin all":   {admin, all},
		"a reader looks": {reader, append(slices.Clone(see), consoleapi.Survey)},
		"a reader without bodies sees no content": {lengths, []consoleapi.Right{consoleapi.Open, consoleapi.See, consoleapi.Survey}},
		"a publisher nothing":                     {sender, []consoleapi.Right{consoleapi.Open}},
		"a link to view changes nothing":          {viewA, see},
		"a link to manage":                        {manageA, append(slices.Clone(see), consoleapi.Attempt, consoleapi.Hold, consoleapi.Edit)},
		"a link of no tenant nothing":             {nowhere, []consoleapi.Right{consoleapi.Open}},
		"nobody":                                  {stranger, []consoleapi.Right{consoleapi.Open}},
	} {
		for _, r := range consoleapi.Rights {
			may := slices.Contains(c.may, r)
			require.Equal(t, may, c.v.May(r), "%s: right %d", name, r)
			require.Equal(t, may, c.v.Refusal(r) == nil, "%s: right %d", name, r)
		}
	}
	require.ErrorIs(t, viewA.Refusal(consoleapi.Attempt), consoleapi.ErrHidden, "a link is not told what else there is")
	require.ErrorIs(t, reader.Refusal(consoleapi.Attempt), consoleapi.ErrForbidden)
	require.ErrorIs(t, sender.Refusal(consoleapi.See), consoleapi.ErrForbidden)
	require.ErrorIs(t, stranger.Refusal(consoleapi.See), consoleapi.ErrSignIn)
}

func TestWhatIsALinksOwn(t *testing.T) {
	for name, c := range map[string]struct {
		v          consoleapi.Visitor
		tenant, at string
		own        bool
	}{
		"its endpoint":                      {manageA, "A", "ep_aaaaaaaaa", true},
		"a bare URL of its tenant":          {manageA, "A", "u_0123456789", true},
		"a queue is the operator's":         {manageA, "A", "q_orders", false},
		"another tenant's":                  {manageB, "A", "ep_aaaaaaaaa", false},
		"of no tenant":                      {manageA, "", "ep_aaaaaaaaa", false},
		"the endpoint of its link":          {singleA, "A", "ep_aaaaaaaaa", true},
		"another endpoint of its tenant":    {singleA, "A", "ep_bbbbbbbbb", false},
		"a bare URL, of an endpoint's link": {singleA, "A", "u_0123456789", false},
		"a link of no tenant owns nothing":  {nowhere, "", "ep_aaaaaaaaa", false},
		"people of the operator own all":    {lengths, "A", "q_orders", true},
		"nobody owns anything":              {stranger, "A", "ep_aaaaaaaaa", false},
	} {
		require.Equal(t, c.own, c.v.Owns(c.tenant, c.at), name)
	}
}
