package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

// idsOf are the ids of the messages in the body of a batch.
func idsOf(t testing.TB, body string) (ids []string) {
	t.Helper()
	var b struct{ Messages []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(body), &b))
	for _, m := range b.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// results answers a batch, each message with one of these statuses.
func results(t testing.TB, statuses ...int) step {
	return func(r *http.Request) (*http.Response, error) {
		body, err := r.GetBody()
		require.NoError(t, err)
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		ids := idsOf(t, string(text))
		require.Len(t, ids, len(statuses))
		var all []string
		status := 503
		for i, s := range statuses {
			one := fmt.Sprintf(`{"status":%d,"id":%q,"duplicate":%v}`, s, ids[i], s == 200)
			if s >= 400 {
				one = fmt.Sprintf(`{"status":%d,"problem":{"type":"/problems/x","title":"no","status":%d}}`, s, s)
			} else {
				status = 202
			}
			all = append(all, one)
		}
		list := `"results":[` + strings.Join(all, ",") + `]}`
		if status == 503 {
			return answers(503, `{"type":"/problems/full","title":"full",`+list, "Retry-After", "4")(r)
		}
		return answers(202, "{"+list)(r)
	}
}

func statusesOf(list []wire.Result) (all []int) {
	for _, r := range list {
		all = append(all, r.Status)
	}
	return all
}

// threePayments have an id, none, and one.
func threePayments() []wire.Message {
	all := []wire.Message{*payment(), *payment(), *payment()}
	all[0].ID, all[2].ID = "a", "c"
	return all
}

func TestOnlyWhatWasNotTakenOfABatchIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newTestSteps(t, client.Repeats{}, results(t, 202, 503, 503), results(t, 503, 409), results(t, 202))
		messages := threePayments()
		got, err := c.PublishBatch(t.Context(), messages)
		require.NoError(t, err)
		require.Equal(t, []int{202, 202, 409}, statusesOf(got))
		first := idsOf(t, s.bodies[0])
		require.Regexp(t, `^msg_[0-9A-Z]{26}$`, first[1])
		require.Equal(t, []string{"a", first[1], "c"}, first)
		require.Equal(t, first[1:], idsOf(t, s.bodies[1]))
		require.Equal(t, first[1:2], idsOf(t, s.bodies[2]))
		for i, r := range got {
			require.Equal(t, first[i], r.ID)
			require.Equal(t, r.Status >= 400, r.Problem != nil)
		}
		require.Empty(t, messages[1].ID, "another message may be made of it")
		require.GreaterOrEqual(t, s.at[2]-s.at[1], 4*time.Second, "as the second answer said")
	})
}

func TestABatchIsGivenUpWithWhatIsKnown(t *testing.T) {
	few := client.Repeats{Tries: 3}
	for name, c := range map[string]struct {
		steps   []step
		want    []int  // statuses; 0: not known
		problem string // of the error; empty: none
		broken  bool   // the error is that no answer came
		tries   int
	}{
		"none is ever taken":             {[]step{results(t, 503, 422, 503), results(t, 503, 503)}, []int{503, 422, 503}, "/problems/full", false, 3},
		"one is taken":                   {[]step{results(t, 503, 202, 503), results(t, 503, 503)}, []int{503, 202, 503}, "", false, 3},
		"no answer":                      {[]step{fails(io.EOF)}, []int{0, 0, 0}, "", true, 3},
		"no answer any more":             {[]step{results(t, 503, 202, 503), fails(io.EOF)}, []int{0, 202, 0}, "", true, 3},
		"an answer to the third try":     {[]step{fails(io.EOF), unmet, results(t, 202, 202, 202)}, []int{202, 202, 202}, "", false, 3},
		"a key that is not known":        {[]step{refuses(401, "unauthorized")}, []int{0, 0, 0}, "/problems/unauthorized", false, 1},
		"a key that is no longer known":  {[]step{results(t, 503, 202, 422), refuses(401, "unauthorized")}, []int{0, 202, 422}, "/problems/unauthorized", false, 2},
		"too much at once":               {[]step{refuses(503, "overloaded")}, []int{0, 0, 0}, "/problems/overloaded", false, 3},
		"a repeat of what was taken":     {[]step{fails(io.EOF), results(t, 200, 200, 200)}, []int{200, 202, 200}, "", false, 2},
		"a store that is gone meanwhile": {[]step{fails(io.EOF), results(t, 503, 503, 503)}, []int{503, 503, 503}, "/problems/full", false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, s := newTestSteps(t, few, c.steps...)
				got, err := api.PublishBatch(t.Context(), threePayments())
				require.Equal(t, c.want, statusesOf(got))
				require.Len(t, s.bodies, c.tries)
				ids := idsOf(t, s.bodies[0])
				for i, r := range got {
					require.Equal(t, ids[i], r.ID, "it can be repeated")
					require.Equal(t, i != 1 && r.Status == 200, r.Duplicate, "it had its id before")
				}
				require.Equal(t, c.problem == "" && !c.broken, err == nil, "%v", err)
				if c.broken {
					require.ErrorIs(t, err, client.ErrUnreachable)
				}
				if c.problem != "" {
					var p *client.Problem
					require.ErrorAs(t, err, &p)
					require.Equal(t, c.problem, p.Type)
					if p.Results != nil {
						require.Equal(t, got, p.Results)
					}
				}
			})
		})
	}
}

func TestABatchThatCantBeSentIsAnError(t *testing.T) {
	c, s := newTestSteps(t, client.Repeats{}, done)
	_, err := c.PublishBatch(t.Context(), []wire.Message{{Topic: "t", Body: json.RawMessage("{")}})
	require.ErrorContains(t, err, "not JSON")
	require.Empty(t, s.bodies)
	got, err := c.PublishBatch(t.Context(), threePayments())
	require.ErrorContains(t, err, "0 results for 3 messages")
	require.Equal(t, "c", got[2].ID)
}
