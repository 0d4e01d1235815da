package console_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/console"
)

func TestWhatEachVisitorMayDo(t *testing.T) {
	all := console.Rights
	see := []console.Right{console.Open, console.See, console.Contents}
	for name, c := range map[string]struct {
		v   console.Visitor
		may []console.Right
	}{
		"an admin all":   {admin, all},
		"a reader looks": {reader, append(slices.Clone(see), console.Survey)},
		"a reader without bodies sees no content": {lengths, []console.Right{console.Open, console.See, console.Survey}},
		"a publisher nothing":                     {sender, []console.Right{console.Open}},
		"a link to view changes nothing":          {viewA, see},
		"a link to manage":                        {manageA, append(slices.Clone(see), console.Attempt, console.Hold, console.Edit)},
		"a link of no tenant nothing":             {nowhere, []console.Right{console.Open}},
		"nobody":                                  {stranger, []console.Right{console.Open}},
	} {
		for _, r := range console.Rights {
			may := slices.Contains(c.may, r)
			require.Equal(t, may, c.v.May(r), "%s: right %d", name, r)
			require.Equal(t, may, c.v.Refusal(r) == nil, "%s: right %d", name, r)
		}
	}
	require.ErrorIs(t, viewA.Refusal(console.Attempt), console.ErrHidden, "a link is not told what else there is")
	require.ErrorIs(t, reader.Refusal(console.Attempt), console.ErrForbidden)
	require.ErrorIs(t, sender.Refusal(console.See), console.ErrForbidden)
	require.ErrorIs(t, stranger.Refusal(console.See), console.ErrSignIn)
}

func TestWhatIsALinksOwn(t *testing.T) {
	for name, c := range map[string]struct {
		v          console.Visitor
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
