package redisq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq"
)

func TestWhatAStoreIsKnownToLackRefusesIt(t *testing.T) {
	check := func(name string, holds dispatcher.Tristate, needed bool) dispatcher.Check {
		return dispatcher.Check{Name: name, Holds: holds, Needed: needed, Detail: "about " + name}
	}
	info := dispatcher.StoreInfo{Kind: "redis", Checks: []dispatcher.Check{
		check("one", dispatcher.No, true), check("two", dispatcher.No, false), check("three", dispatcher.Unknown, true),
		check("four", dispatcher.Yes, true), check("five", dispatcher.No, true),
	}}
	err := redisq.JudgeStart(info)
	require.EqualError(t, err, "about one\nabout five", "all reasons, and no other")
	require.Len(t, redisq.StartWarnings(info), 4, "all but what holds")

	info.Checks = info.Checks[1:4]
	require.NoError(t, redisq.JudgeStart(info), "what is unknown is taken")
	require.Equal(t, info.Checks[:2], redisq.StartWarnings(info))
	require.ErrorContains(t, redisq.JudgeStart(dispatcher.StoreInfo{Kind: "miniredis"}), "keeps nothing")
}

func TestAStoreThatCouldBeAnybodyIsToldSo(t *testing.T) {
	for url, want := range map[string]bool{
		"rediss://h:1/0?skip_verify=true": true, "rediss://h:1?db=1&skip_verify=1": true,
		"rediss://h:1": false, "rediss://h:1?skip_verify=false": false, "redis://h:1?skip_verify=true": false, "%": false,
	} {
		require.Equal(t, want, redisq.Unverified(url), url)
	}
}
