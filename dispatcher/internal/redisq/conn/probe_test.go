package conn_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
)

// newTestProbe probes a store that has two partitions.
func newTestProbe(t *testing.T, url string, d dispatcher.Durability) (*conn.Probe, *conn.Client) {
	t.Helper()
	c, err := conn.Dial(t.Context(), conn.Options{URL: url, Project: "survey", Durability: d})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	partitions, err := c.Agree(t.Context(), 2)
	require.NoError(t, err)
	c.Divide(partitions)
	require.NoError(t, c.FindDurable(t.Context()))
	return conn.NewProbe(c, false), c
}

// factsOf opens a store and asks what it says of itself.
func factsOf(t *testing.T, url string, d dispatcher.Durability) dispatcher.StoreInfo {
	t.Helper()
	p, _ := newTestProbe(t, url, d)
	info, err := p.Store(t.Context())
	require.NoError(t, err)
	return info
}

// mustHold fails the test unless a check has an answer, and says these words.
func mustHold(t *testing.T, info dispatcher.StoreInfo, name string, want dispatcher.Tristate, words string) {
	t.Helper()
	for _, c := range info.Checks {
		if c.Name == name {
			require.Equal(t, want, c.Holds, "%s: %s", name, c.Detail)
			require.Contains(t, c.Detail, words)
			return
		}
	}
	require.Fail(t, "no such check", name)
}

// holds are the answers by the names of their checks.
func holds(info dispatcher.StoreInfo) map[string]dispatcher.Tristate {
	out := map[string]dispatcher.Tristate{}
	for _, c := range info.Checks {
		out[c.Name] = c.Holds
	}
	return out
}

var fsync = dispatcher.Durability{Fsync: true}

func TestProbeOfAServerThatHasAllThatIsAskedFor(t *testing.T) {
	t.Parallel()
	info := factsOf(t, redistest.Start(t, "maxmemory 100mb").URL(), dispatcher.Durability{})
	require.Contains(t, []string{"redis", "valkey"}, info.Kind)
	require.Regexp(t, `^\d+\.\d+\.\d+`, info.Version)
	require.Equal(t, "single", info.Mode)
	require.Equal(t, 1, info.Nodes)
	require.Positive(t, *info.UsedBytes)
	require.EqualValues(t, 100<<20, *info.MaxBytes)
	require.True(t, *info.AppendOnly)
	require.Equal(t, "everysec", info.Fsync)
	require.Equal(t, "noeviction", info.Eviction)
	require.Equal(t, dispatcher.Yes, info.Durable)
	require.Equal(t, dispatcher.LosesLastSecond, info.Loses)
	require.Len(t, info.Checks, 9)
	for name, answer := range holds(info) {
		require.Equal(t, dispatcher.Yes, answer, name)
	}
}

func TestProbeOfAServerThatHidesWhatItIs(t *testing.T) {
	t.Parallel()
	url := userOf(t, redistest.Start(t), "+@all", "~*", "-config", "-info", "-command")
	for _, d := range []dispatcher.Durability{{}, fsync, {Replicas: 1}} {
		info := factsOf(t, url, d)
		require.Equal(t, "unknown", info.Kind)
		require.Nil(t, info.AppendOnly)
		require.Equal(t, dispatcher.LosesUnknown, info.Loses)
		want := map[string]dispatcher.Tristate{
			"commands": dispatcher.Unknown, "eviction": dispatcher.Unknown, "memory": dispatcher.Unknown,
			"append_only": dispatcher.Unknown, "durability": dispatcher.Unknown, "rights": dispatcher.Unknown,
			"scripts": dispatcher.Yes, "pub_sub": dispatcher.Yes, "clock": dispatcher.Yes,
		}
		if !d.Waits() {
			want["durability"] = dispatcher.Yes
		}
		require.Equal(t, want, holds(info))
		require.Equal(t, want["durability"], info.Durable)
	}
}

// userOf makes a user with these rights, and answers how to connect as it: what
// managed kinds forbid everybody.
func userOf(t *testing.T, server redistest.Redis, rights ...any) string {
	t.Helper()
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	admin := redis.NewClient(options)
	defer admin.Close()
	args := append([]any{"ACL", "SETUSER", "managed", "on", ">managed", "&*"}, rights...)
	require.NoError(t, admin.Do(t.Context(), args...).Err())
	_, address, _ := strings.Cut(server.URL(), "://")
	return "redis://managed:managed@" + address
}

func TestProbeNamesTheCommandThatIsMissing(t *testing.T) {
	t.Parallel()
	info := factsOf(t, redistest.Start(t, `rename-command LPOS ""`).URL(), dispatcher.Durability{})
	mustHold(t, info, "commands", dispatcher.No, "no LPOS: use Redis 6.2")
	mustHold(t, info, "scripts", dispatcher.Yes, "")
}

// A script uses keys that it does not declare, so the right to the declared ones is not enough.
func TestProbeTriesKeysThatNoScriptDeclares(t *testing.T) {
	t.Parallel()
	url := userOf(t, redistest.Start(t), "+@all", "~{survey}*", "~{survey:0}", "~{survey:1}")
	info := factsOf(t, url, dispatcher.Durability{})
	mustHold(t, info, "rights", dispatcher.No, "run ACL SETUSER managed ~{survey:* ~{survey}*")
}

func TestProbeOfTheOneInThisProcess(t *testing.T) {
	t.Parallel()
	info := factsOf(t, redistest.StartMini(t).URL(), fsync)
	require.Equal(t, "miniredis", info.Kind)
	require.Equal(t, dispatcher.LosesEverything, info.Loses)
	mustHold(t, info, "commands", dispatcher.Yes, "")
	mustHold(t, info, "scripts", dispatcher.Yes, "")
	mustHold(t, info, "durability", dispatcher.No, "no disk")
}

func TestProbeKnowsWhetherAPublishCanWaitForTheDisk(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, connection := newTestProbe(t, server.URL(), fsync)
	client := connection.Redis()
	ask := func(name, value string) dispatcher.StoreInfo {
		require.NoError(t, client.ConfigSet(t.Context(), name, value).Err())
		store.Forget()
		info, err := store.Store(t.Context())
		require.NoError(t, err)
		return info
	}
	info := ask("appendfsync", "everysec")
	switch {
	case client.Do(t.Context(), "WAITAOF", 0, 0, 0).Err() != nil:
		mustHold(t, info, "durability", dispatcher.No, "CONFIG SET appendfsync always")
		require.Equal(t, dispatcher.LosesLastSecond, info.Loses)
	case waitsForTheDisk(t, client):
		mustHold(t, info, "durability", dispatcher.Yes, "WAITAOF")
		require.Equal(t, dispatcher.LosesNothing, info.Loses)
	default:
		mustHold(t, info, "durability", dispatcher.No, "does not wait for the disk")
		require.Equal(t, dispatcher.LosesLastSecond, info.Loses)
	}
	info = ask("appendfsync", "always")
	mustHold(t, info, "durability", dispatcher.Yes, "always")
	require.Equal(t, dispatcher.LosesNothing, info.Loses)
	info = ask("appendonly", "no")
	mustHold(t, info, "durability", dispatcher.No, "set appendonly yes")
	require.Equal(t, dispatcher.No, info.Durable)
	require.Equal(t, dispatcher.LosesEverything, info.Loses, "it writes no snapshots either")
	info = ask("save", "60 1")
	require.Equal(t, dispatcher.LosesSinceSnapshot, info.Loses)
	for _, c := range info.Checks {
		if c.Name == "append_only" || c.Name == "durability" {
			require.True(t, c.Needed, c.Name)
		}
	}
}

// waitsForTheDisk reports whether a server that fsyncs once a second makes
// somebody wait who writes one time after another: each time, since a busy
// machine makes one wait now and then.
func waitsForTheDisk(t *testing.T, client redis.UniversalClient) bool {
	t.Helper()
	conn := client.(*redis.Client).Conn()
	defer conn.Close()
	least := time.Hour
	for n := range 6 {
		began := time.Now()
		require.NoError(t, conn.Set(t.Context(), "waited", n, 0).Err())
		require.NoError(t, conn.Do(t.Context(), "WAITAOF", 1, 0, 60_000).Err())
		if n > 0 { // the first may meet the disk's turn
			least = min(least, time.Since(began))
		}
	}
	require.NoError(t, client.Del(t.Context(), "waited").Err())
	return least > 200*time.Millisecond
}

func TestProbeIsGivenAgainForSomeSeconds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, _ := newTestProbe(t, server.URL(), dispatcher.Durability{})
	first, err := store.Store(t.Context())
	require.NoError(t, err)
	server.Stop()
	again, err := store.Store(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again)
	store.Forget()
	_, err = store.Store(t.Context())
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
}

// A caller that gives up must not spoil the answer of the next.
func TestProbeOfACallerThatGaveUpIsAskedAgain(t *testing.T) {
	t.Parallel()
	store, _ := newTestProbe(t, redistest.Start(t).URL(), dispatcher.Durability{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Store(gone)
	require.ErrorIs(t, err, dispatcher.ErrUnavailable)
	info, err := store.Store(t.Context())
	require.NoError(t, err)
	mustHold(t, info, "commands", dispatcher.Yes, "")
}

// answers is a server that has all, with these fields of its INFO changed.
func answers(changes map[string]string) conn.ProbeAnswers {
	info := map[string]string{
		"redis_version": "7.4.0", "used_memory": "10", "maxmemory": "100", "maxmemory_policy": "noeviction",
		"aof_enabled": "1", "aof_last_write_status": "ok", "connected_slaves": "0",
	}
	maps.Copy(info, changes)
	return conn.ProbeAnswers{
		Info:    []map[string]string{info},
		Config:  []map[string]string{{"appendfsync": "everysec", "save": ""}},
		Scripts: dispatcher.Yes, Mode: conn.ModeSingle,
	}
}

// among puts a server among others that have all.
func among(s conn.ProbeAnswers) conn.ProbeAnswers {
	good := answers(map[string]string{"connected_slaves": "1", "slave0": "ip=h,port=1,state=online,offset=1,lag=0"})
	s.Info = []map[string]string{good.Info[0], s.Info[0], good.Info[0]}
	s.Config = []map[string]string{good.Config[0], s.Config[0], good.Config[0]}
	s.Mode, s.Cluster = conn.ModeCluster, map[string]string{"cluster_state": "ok", "cluster_slots_ok": "16384"}
	return s
}

func TestProbeJudgesTheWorstOfAllMasters(t *testing.T) {
	t.Parallel()
	online := map[string]string{"connected_slaves": "2", "slave0": "state=online,lag=0", "slave1": "state=online,lag=1"}
	syncing := map[string]string{"connected_slaves": "2", "slave0": "state=online", "slave1": "state=wait_bgsave"}
	two := dispatcher.Durability{Replicas: 2}
	for name, c := range map[string]struct {
		answers conn.ProbeAnswers
		check   string
		want    dispatcher.Tristate
		words   string
	}{
		"one that evicts":                {among(answers(map[string]string{"maxmemory_policy": "allkeys-lru"})), "eviction", dispatcher.No, "set it to noeviction"},
		"one that evicts what expires":   {answers(map[string]string{"maxmemory_policy": "volatile-lru"}), "eviction", dispatcher.Yes, "time to live"},
		"one that hides its policy":      {among(answers(map[string]string{"maxmemory_policy": ""})), "eviction", dispatcher.Unknown, "noeviction"},
		"no limit of memory":             {answers(map[string]string{"maxmemory": "0"}), "memory", dispatcher.Yes, "maxmemory is not set"},
		"one without a file":             {among(answers(map[string]string{"aof_enabled": "0"})), "append_only", dispatcher.No, "set appendonly yes"},
		"one that hides its file":        {among(answers(map[string]string{"aof_enabled": ""})), "append_only", dispatcher.Unknown, "does not report"},
		"one whose disk is full":         {among(answers(map[string]string{"aof_last_write_status": "err"})), "append_only", dispatcher.No, "b can't write"},
		"one whose clock goes wrong":     {with(answers(nil), func(s *conn.ProbeAnswers) { s.Ahead = -10 * time.Second }), "clock", dispatcher.No, "-10s"},
		"replicas that follow":           {with(answers(online), func(s *conn.ProbeAnswers) { s.Durability = two }), "durability", dispatcher.Yes, "2 replicas"},
		"a replica that does not yet":    {with(answers(syncing), func(s *conn.ProbeAnswers) { s.Durability = two }), "durability", dispatcher.No, "a has 1 replicas"},
		"a master with too few replicas": {with(among(answers(online)), func(s *conn.ProbeAnswers) { s.Durability = two }), "durability", dispatcher.No, "a has 1 replicas"},
		"no WAITAOF, and no fsync":       {with(answers(nil), func(s *conn.ProbeAnswers) { s.Durability = fsync }), "durability", dispatcher.No, "Redis 7.2"},
		"WAITAOF, and a hidden file":     {with(answers(map[string]string{"aof_enabled": ""}), func(s *conn.ProbeAnswers) { s.Durability, s.AOF, s.Waits = fsync, true, dispatcher.Yes }), "durability", dispatcher.Unknown, "WAITAOF"},
		"WAITAOF that waits":             {waiting(dispatcher.Yes, "everysec"), "durability", dispatcher.Yes, "on the store's disk"},
		"WAITAOF that does not wait":     {waiting(dispatcher.No, "everysec"), "durability", dispatcher.No, "CONFIG SET appendfsync always"},
		"WAITAOF that has not to wait":   {waiting(dispatcher.No, "always"), "durability", dispatcher.Yes, "always"},
		"WAITAOF that may have to wait":  {waiting(dispatcher.No, ""), "durability", dispatcher.Unknown, "make sure that it is always"},
		"WAITAOF that was not tried":     {waiting(dispatcher.Unknown, "everysec"), "durability", dispatcher.Unknown, "could not be tried"},
		"WAITAOF that waits for ever":    {waiting(dispatcher.Unknown, "no"), "durability", dispatcher.No, "set appendfsync always"},
		"scripts without other keys":     {with(answers(nil), func(s *conn.ProbeAnswers) { s.Scripts = dispatcher.No }), "scripts", dispatcher.No, "without declaring"},
		"scripts that could not be had":  {with(answers(nil), func(s *conn.ProbeAnswers) { s.Scripts = dispatcher.Unknown }), "scripts", dispatcher.Unknown, "could not"},
		"a whole cluster":                {among(answers(online)), "cluster", dispatcher.Yes, "3 masters"},
		"a master that is down":          {with(among(answers(online)), func(s *conn.ProbeAnswers) { s.Down = 1 }), "cluster", dispatcher.No, "down does not answer"},
		"slots that nobody serves": {with(among(answers(online)), func(s *conn.ProbeAnswers) {
			s.Cluster = map[string]string{"cluster_state": "fail", "cluster_slots_ok": "9"}
		}), "cluster", dispatcher.No, "9 of 16384"},
		"a master without a replica":   {among(answers(nil)), "cluster", dispatcher.No, "b has no replica"},
		"a cluster that does not tell": {with(among(answers(nil)), func(s *conn.ProbeAnswers) { s.Cluster = nil }), "cluster", dispatcher.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) { mustHold(t, c.answers.Judge(), c.check, c.want, c.words) })
	}
}

// waiting is a server with WAITAOF, of which was found out whether it waits.
func waiting(waits dispatcher.Tristate, appendfsync string) conn.ProbeAnswers {
	s := answers(nil)
	s.Durability, s.AOF, s.Waits = fsync, true, waits
	s.Config[0]["appendfsync"] = appendfsync
	return s
}

func with(s conn.ProbeAnswers, change func(*conn.ProbeAnswers)) conn.ProbeAnswers {
	change(&s)
	return s
}

func TestProbeTellsOfTheFullestMaster(t *testing.T) {
	t.Parallel()
	info := among(answers(map[string]string{"used_memory": "90"})).Judge()
	require.EqualValues(t, 90, *info.UsedBytes)
	require.EqualValues(t, 100, *info.MaxBytes)
	require.Equal(t, 3, info.Nodes)
	require.Equal(t, "cluster", info.Mode)
}

func TestWhatTheStoreWouldLose(t *testing.T) {
	t.Parallel()
	off, online := map[string]string{"aof_enabled": "0"}, map[string]string{"connected_slaves": "1", "slave0": "state=online"}
	snapshot := func(s *conn.ProbeAnswers) { s.Config[0]["save"] = "60 1" }
	for name, c := range map[string]struct {
		answers conn.ProbeAnswers
		want    string
	}{
		"with a file":                   {answers(nil), dispatcher.LosesLastSecond},
		"with a file written at once":   {with(answers(nil), func(s *conn.ProbeAnswers) { s.Config[0]["appendfsync"] = "always" }), dispatcher.LosesNothing},
		"with a file written sometimes": {with(answers(nil), func(s *conn.ProbeAnswers) { s.Config[0]["appendfsync"] = "no" }), dispatcher.LosesUnknown},
		"with a file of a hidden kind":  {with(answers(nil), func(s *conn.ProbeAnswers) { s.Config[0] = nil }), dispatcher.LosesUnknown},
		"with snapshots":                {with(answers(off), snapshot), dispatcher.LosesSinceSnapshot},
		"with neither":                  {answers(off), dispatcher.LosesEverything},
		"with replicas":                 {with(answers(online), func(s *conn.ProbeAnswers) { s.Durability.Replicas = 1 }), dispatcher.LosesUnreplicated},
		"with too few replicas":         {with(answers(nil), func(s *conn.ProbeAnswers) { s.Durability.Replicas = 1 }), dispatcher.LosesLastSecond},
		"with WAITAOF":                  {with(answers(nil), func(s *conn.ProbeAnswers) { s.Durability, s.AOF, s.Waits = fsync, true, dispatcher.Yes }), dispatcher.LosesNothing},
		"where it tells nothing":        {conn.ProbeAnswers{Info: []map[string]string{nil}, Config: []map[string]string{nil}}, dispatcher.LosesUnknown},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.answers.Judge().Loses) })
	}
}

func TestTheCommandsOfTheScriptsAreProbedFor(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`call\('([A-Z]+)'|each\('([A-Z]+)'`)
	files, err := filepath.Glob("../lua/*.lua")
	require.NoError(t, err)
	below, err := filepath.Glob("../*/lua/*.lua")
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	for _, file := range append(files, below...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			// Polls is about PUBLISH. Trim goes by the number of entries where MEMORY is forbidden. Where INFO is, a page has no server.
			if command := found[1] + found[2]; command != "PUBLISH" && command != "MEMORY" && command != "INFO" {
				require.Contains(t, conn.ProbedCommands, command, file)
			}
		}
	}
}

// In a cluster all masters are asked. One that is down is told, and stops nothing
// of the others.
func TestProbeOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	c, err := conn.Dial(t.Context(), conn.Options{URL: cluster.URL(), Project: "several"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	c.Divide(9)
	p := conn.NewProbe(c, false)
	info, err := p.Store(t.Context())
	require.NoError(t, err)
	require.Equal(t, "cluster", info.Mode)
	require.Equal(t, 3, info.Nodes)
	mustHold(t, info, "commands", dispatcher.Yes, "")
	mustHold(t, info, "scripts", dispatcher.Yes, "")
	mustHold(t, info, "cluster", dispatcher.No, "has no replica")

	cluster.KillMasterOf(c.Tag(0))
	require.Eventually(t, func() bool {
		p.Forget()
		info, err = p.Store(t.Context())
		return err == nil && slices.ContainsFunc(info.Checks, func(c dispatcher.Check) bool {
			return c.Name == "cluster" && strings.Contains(c.Detail, "does not answer")
		})
	}, 30*time.Second, 50*time.Millisecond)
	mustHold(t, info, "cluster", dispatcher.No, "")
	mustHold(t, info, "scripts", dispatcher.Yes, "")
}

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
