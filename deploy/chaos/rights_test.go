package chaos_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hookladder/hookladder/deploy/kit"
)

// user is the instances' user of Redis if rights are taken away, with the rights that the documents tell
// people to give. All others go on as the default user.
const (
	user     = "hookladder"
	password = "chaos"
	rights   = "on >" + password + " ~{default}* ~{default:* &{default}* +@hash +@list +@sortedset +@stream +@string +@keyspace +@connection" +
		" +@transaction +@pubsub -@dangerous +eval +evalsha +script|load +script|exists +time +info +config|get +memory|usage +cluster|info +cluster|slots"
)

// takenRights are those that may be taken away: of one command in the middle of a script, of all
// commands of a kind, and of scripts themselves.
var takenRights = []string{"xadd", "zadd", "zrem", "hset", "hdel", "del", "publish", "@stream", "@sortedset", "evalsha"}

// withoutRight is for how long.
const withoutRight = 2 * time.Second

// userSettings are lines of redis.conf.
func userSettings() []string {
	if !*chaosRights {
		return nil
	}
	return []string{"user " + user + " " + rights}
}

// asUser is a URL for that user.
func asUser(url string) string {
	if !*chaosRights {
		return url
	}
	return strings.Replace(url, "://", "://"+user+":"+password+"@", 1)
}

// takeRight takes a right away for a time, and gives it back. Redis checks each command of a script when it comes to it.
func (b *single) takeRight(ctx context.Context, random *rand.Rand) {
	right := takenRights[random.IntN(len(takenRights))]
	defer b.begins("right taken away", "")()
	b.say("the right is %s", right)
	set := func(ctx context.Context, rules ...string) error {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return b.redis.direct.ACLSetUser(call, user, rules...).Err()
	}
	if err := set(ctx, "-"+right); err != nil {
		b.say("not taken away: %v", err)
	}
	kit.Rest(ctx, withoutRight)
	always := context.WithoutCancel(ctx) // a run ends with a user who has all rights
	if err := kit.Until(always, "the right is given back", func() error { return set(always, strings.Fields(rights)...) }); err != nil {
		b.fleet.t.Error(err)
	}
}
