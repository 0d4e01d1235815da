package conn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// required are the commands of the scripts and of the store, each with arguments that Redis
// accepts. A test compares them with the scripts. KEY and HOME stand for keys of the
// project, and CHANNEL for one of its channels.
var required = []string{
	"EVAL return 2 KEY HOME", "EVALSHA x 1 KEY", "SCRIPT LOAD x", "SCRIPT EXISTS x", "PING", "TIME", "SCAN 0",
	"DEL KEY", "UNLINK KEY", "TYPE KEY", "EXISTS KEY", "EXPIREAT KEY 1", "PEXPIREAT KEY 1", "GET KEY", "SET KEY x",
	"HGET KEY x", "HSET KEY x x", "HSETNX KEY x x", "HDEL KEY x", "HMGET KEY x", "HGETALL KEY", "HKEYS KEY", "HLEN KEY",
	"HEXISTS KEY x", "HINCRBY KEY x 1", "HSCAN KEY 0", "HSTRLEN KEY x",
	"LPOP KEY", "LPUSH KEY x", "RPUSH KEY x", "LLEN KEY", "LINDEX KEY 0", "LRANGE KEY 0 0", "LSET KEY 0 x", "LTRIM KEY 0 0",
	"LREM KEY 0 x", "LPOS KEY x",
	"ZADD KEY 0 x", "ZREM KEY x", "ZCARD KEY", "ZCOUNT KEY 0 0", "ZRANGE KEY 0 0", "ZREVRANGE KEY 0 0", "ZRANGEBYSCORE KEY 0 0",
	"ZREVRANGEBYSCORE KEY 0 0", "ZRANK KEY x", "ZREVRANK KEY x", "ZREMRANGEBYSCORE KEY 0 0", "ZREMRANGEBYRANK KEY 0 0",
	"ZSCORE KEY x", "ZMSCORE KEY x", "ZSCAN KEY 0",
	"XADD KEY * x x", "XDEL KEY 0", "XLEN KEY", "XRANGE KEY 0 0", "XREVRANGE KEY 0 0", "XTRIM KEY MAXLEN 0",
}

// helpful are commands without which Hookladder works, but knows or does less.
var helpful = []string{
	"INFO", "CONFIG GET x", "COMMAND INFO x", "MEMORY USAGE KEY", "PUBLISH CHANNEL x", "SUBSCRIBE CHANNEL",
	"WAIT 0 1", "WAITAOF 0 0 1", "CLUSTER INFO", "CLUSTER SLOTS",
}

// names returns the names of the required commands.
func names() (list []string) {
	for _, command := range required {
		name, _, _ := strings.Cut(command, " ")
		list = append(list, name)
	}
	return slices.Compact(list)
}

// rights has the rights that the user lacks at any master, in the form of an ACL rule.
type rights struct {
	user     string
	required []string // commands, keys and channels
	helpful  []string
	open     bool // they could not be tried at a master
}

// queryRights queries what the user of the connection may do. Between MULTI and DISCARD,
// Redis checks the rights of a command and does not run it. So the user needs no right to
// read the ACL.
func queryRights(ctx context.Context, c *Client) rights {
	masters, err := c.Masters(ctx)
	r := rights{user: "default", open: err != nil || len(masters) == 0}
	for _, master := range masters {
		r.user = cmp.Or(master.Options().Username, r.user)
		if err := r.queryAt(ctx, master, c.Project()); err != nil {
			r.open = true
		}
	}
	for _, list := range []*[]string{&r.required, &r.helpful} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r
}

// queryAt adds the rights that the user lacks at one master.
func (r *rights) queryAt(ctx context.Context, master *redis.Client, project string) error {
	one := master.Conn()
	defer one.Close() //nolint:errcheck // it returns the connection
	if err := one.Do(ctx, "MULTI").Err(); err != nil {
		if Forbidden(err) {
			r.helpful = append(r.helpful, "+@transaction")
		}
		return err
	}
	all := slices.Concat(required, helpful)
	results := make([]*redis.Cmd, len(all))
	var discarded *redis.Cmd
	_, _ = one.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, command := range all {
			results[i] = p.Do(ctx, arguments(command, project)...)
		}
		discarded = p.Do(ctx, "DISCARD")
		return nil
	})
	for i, result := range results {
		if !Forbidden(result.Err()) {
			continue
		}
		list := &r.required
		if i >= len(required) {
			list = &r.helpful
		}
		*list = append(*list, ruleFor(all[i], result.Err().Error(), project)...)
	}
	return discarded.Err()
}

// arguments returns a command in the form that go-redis sends.
func arguments(command, project string) (args []any) {
	fill := map[string]string{
		"KEY": keys.Tag(project, 0) + ":rights", "HOME": keys.Home(project) + ":rights", "CHANNEL": keys.Home(project) + keys.WakeChannel,
	}
	for _, word := range strings.Fields(command) {
		args = append(args, cmp.Or(fill[word], word))
	}
	return args
}

// ruleFor returns the ACL rules that a user needs for a command that Redis refused.
func ruleFor(command, refusal, project string) []string {
	switch {
	case strings.Contains(refusal, "channel"):
		return []string{"&" + keys.Home(project) + "*"}
	case strings.Contains(refusal, " key"):
		return []string{"~" + keys.Home(project) + "*", "~" + strings.TrimSuffix(keys.Tag(project, 0), "0}") + "*"}
	}
	words := strings.Fields(strings.ToLower(command))
	if slices.Contains([]string{"script", "config", "command", "memory", "cluster"}, words[0]) {
		return []string{"+" + words[0] + "|" + words[1]}
	}
	return []string{"+" + words[0]}
}

// mostRules is how many rules an error lists. A user that lacks more gets the whole line.
const mostRules = 12

// ACLRule returns the ACL rule with the least rights for a project, without a name and a
// password.
func ACLRule(project string) string {
	return strings.Join([]string{
		"~" + keys.Home(project) + "*", "~" + strings.TrimSuffix(keys.Tag(project, 0), "0}") + "*", "&" + keys.Home(project) + "*",
		"+@hash +@list +@sortedset +@stream +@string +@keyspace +@connection +@transaction +@pubsub -@dangerous",
		"+eval +evalsha +script|load +script|exists +time +info +config|get +memory|usage +cluster|info +cluster|slots",
	}, " ")
}

// grant returns the command that gives the user these rights.
func (r *rights) grant(rules []string, project string) string {
	rule := strings.Join(rules, " ")
	if len(rules) > mostRules {
		rule = ACLRule(project)
	}
	return "ACL SETUSER " + r.user + " " + rule
}

// MissingRights returns an error with the rights that the user of a store lacks, if err
// says that Redis refused a command. Otherwise it returns err.
func MissingRights(ctx context.Context, c *Client, err error) error {
	if !Forbidden(err) {
		return err
	}
	r := queryRights(ctx, c)
	if len(r.required) == 0 {
		return fmt.Errorf("%w: REDIS_URL: the user lacks a right: %w", ErrSettings, err)
	}
	return fmt.Errorf("%w: %s", ErrSettings, checkRights(r, c.Project()).Detail)
}

// LackedRights returns the command that gives the user of a store the rights that it lacks and
// needs, or an empty text.
func LackedRights(ctx context.Context, c *Client) string {
	r := queryRights(ctx, c)
	if len(r.required) == 0 {
		return ""
	}
	return r.grant(r.required, c.Project())
}

// CheckRights is the name of the check of the user's rights.
const CheckRights = "rights"

func checkRights(r rights, project string) dispatcher.Check {
	const name = CheckRights
	switch {
	case len(r.required) > 0:
		return needed(check(name, dispatcher.No, "REDIS_URL: the user %s lacks rights: run %s", r.user, r.grant(slices.Concat(r.required, r.helpful), project)))
	case len(r.helpful) > 0:
		return needed(check(name, dispatcher.Unknown, "the user %s lacks rights, so some properties of the store are unknown: if the store allows it, run %s", r.user, r.grant(r.helpful, project)))
	case r.open:
		return needed(check(name, dispatcher.Unknown, "the rights of the user %s could not be tried: the store has no MULTI, or a master did not respond", r.user))
	}
	return needed(check(name, dispatcher.Yes, "the user %s has all rights that are used", r.user))
}
