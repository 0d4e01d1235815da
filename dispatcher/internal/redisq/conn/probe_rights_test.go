package conn_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// rule is the rule of a project as arguments of ACL SETUSER.
func rule(project string) (args []any) {
	for _, word := range strings.Fields(conn.ACLRule(project)) {
		args = append(args, word)
	}
	return args
}

func TestTheDocumentedRuleIsTheRuleOfTheDefaultProject(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../deploy/docs/operate.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "\nuser hookladder on >PASSWORD "+conn.ACLRule("default")+"\n")
}

func TestTheRuleGivesAllRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	args := append([]any{"ACL", "SETUSER", "least", "on", ">least"}, rule("survey")...)
	require.NoError(t, server.Client.Do(t.Context(), args...).Err())
	info := factsOf(t, strings.Replace(server.URL(), "redis://", "redis://least:least@", 1), dispatcher.Durability{})
	for name, answer := range holds(info) {
		require.Equal(t, dispatcher.Yes, answer, name)
	}
	mustHold(t, info, "rights", dispatcher.Yes, "the user least has all rights")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "least", Password: "least"})
	defer client.Close()
	for _, command := range []string{"GET {surveys}", "GET {other:0}", "PUBLISH other x", "FLUSHALL", "CONFIG SET save x", "KEYS *", "SHUTDOWN", "SCRIPT FLUSH", "FUNCTION FLUSH", "ACL LIST"} {
		require.ErrorContains(t, client.Do(t.Context(), conn.CommandArguments(command, "survey")...).Err(), "NOPERM", command)
	}
}

func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		without string // the rights that a user with all others lacks
		want    dispatcher.Tristate
		words   string
	}{
		"a command":                 {"-zadd -time", dispatcher.No, "run ACL SETUSER managed +time +zadd"},
		"a part of a command":       {"-script|load", dispatcher.No, "run ACL SETUSER managed +script|load"},
		"keys":                      {"resetkeys ~{survey}*", dispatcher.No, "run ACL SETUSER managed ~{survey:* ~{survey}*"},
		"keys that may be read":     {"resetkeys %R~*", dispatcher.No, "run ACL SETUSER managed ~{survey:* ~{survey}*"},
		"most commands":             {"-@write -@read", dispatcher.No, "run ACL SETUSER managed " + conn.ACLRule("survey")},
		"a command that is helpful": {"-info -config", dispatcher.Unknown, "if the store allows it, run ACL SETUSER managed +config|get +info"},
		"channels":                  {"resetchannels", dispatcher.Unknown, "run ACL SETUSER managed &{survey}*"},
		"the way to ask":            {"-multi", dispatcher.Unknown, "run ACL SETUSER managed +@transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			url := userOf(t, server, "+@all", "~*")
			opened, err := conn.Dial(t.Context(), conn.Options{URL: url, Project: "survey"})
			require.NoError(t, err)
			t.Cleanup(func() { _ = opened.Close() })
			opened.Divide(2)
			args := []any{"ACL", "SETUSER", "managed"}
			for _, word := range strings.Fields(c.without) {
				args = append(args, word)
			}
			require.NoError(t, server.Client.Do(t.Context(), args...).Err())
			info, err := conn.NewProbe(opened, false).Store(t.Context())
			require.NoError(t, err)
			mustHold(t, info, "rights", c.want, c.words)
		})
	}
}

// A command with the wrong number of arguments is refused before its rights are checked.
func TestRedisAcceptsTheArgumentsOfEachCommand(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client
	one := client.Conn()
	defer one.Close()
	require.NoError(t, one.Do(t.Context(), "MULTI").Err())
	for _, command := range append(conn.RequiredCommands, conn.HelpfulCommands...) {
		if strings.HasPrefix(command, "WAITAOF") && !redistest.Knows(t, "redis://"+client.Options().Addr, "WAITAOF") {
			continue
		}
		require.Equal(t, "QUEUED", one.Do(t.Context(), conn.CommandArguments(command, "survey")...).Val(), command)
	}
}
