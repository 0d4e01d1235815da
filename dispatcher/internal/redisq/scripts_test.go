package redisq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

func TestAServerIsGivenOnlyTheScriptsItLacks(t *testing.T) {
	server := redistest.Start(t)
	open := func(project, url string) *trap {
		return &trap{TB: t, store: openTestStore(t, redisq.Options{URL: url, Project: project})}
	}
	first := open("first", server.URL())
	client, loaded := first.store.Client(), func() int { return first.stat("script|load") }
	all := loaded()
	require.Len(t, redisq.ScriptTexts(), all)

	open("second", server.URL())
	require.Equal(t, all, loaded(), "it knows them")

	require.NoError(t, client.ScriptFlush(t.Context()).Err())
	require.NoError(t, client.ScriptLoad(t.Context(), redisq.ScriptTexts()["claim"]).Err())
	require.NoError(t, client.ConfigResetStat(t.Context()).Err())
	open("third", server.URL())
	require.Equal(t, all-1, loaded(), "it knows one of them")

	require.NoError(t, client.ConfigResetStat(t.Context()).Err())
	setUser(t, server, "blind", "+@all", "-script|exists")
	open("fourth", strings.Replace(server.URL(), "redis://", "redis://blind:secret@", 1))
	require.Equal(t, all, loaded(), "who may not ask gives all")
}

func TestAScriptIsLoadedLateAtItsFirstCall(t *testing.T) {
	server := redistest.Start(t)
	late := &trap{TB: t, store: openTestStore(t, redisq.Options{URL: server.URL(), LoadLate: true})}
	require.Zero(t, late.stat("script|load"))
	_, _, err := late.store.Limit(t.Context(), "one", "a", dispatcher.LaneLimits{Mode: dispatcher.LanePaused}, false)
	require.NoError(t, err)
	require.Equal(t, 1, late.stat("script|load"), "the one that was called")
}
