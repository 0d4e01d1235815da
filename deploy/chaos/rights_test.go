package chaos_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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

// rightTaken is the kind of that fault.
const rightTaken = "right taken away"

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

// depriving takes rights away.
type depriving struct {
	*trouble
	each func(ctx context.Context, do func(ctx context.Context, node *redis.Client) error) error // each server
}

// does are what it does. It must happen in each run.
func (d depriving) does() (deeds, soon []deed) {
	if !*chaosRights {
		return nil, nil
	}
	return []deed{d.takeRight, d.takeRight}, []deed{d.takeRight}
}

// takeRight takes a right away for a time, and gives it back. Redis checks each command of a script when it comes to it.
func (d depriving) takeRight(ctx context.Context, random *rand.Rand) {
	right := takenRights[random.IntN(len(takenRights))]
	defer d.begins(rightTaken, "")()
	d.say("the right is %s", right)
	set := func(ctx context.Context, rules ...string) error {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return d.each(call, func(ctx context.Context, node *redis.Client) error { return node.ACLSetUser(ctx, user, rules...).Err() })
	}
	if err := set(ctx, "-"+right); err != nil {
		d.say("not taken away everywhere: %v", err)
	}
	kit.Rest(ctx, withoutRight)
	always := context.WithoutCancel(ctx) // a run ends with a user who has all rights
	if err := kit.Until(always, "the right is given back", func() error { return set(always, strings.Fields(rights)...) }); err != nil {
		d.fleet.t.Error(err)
	}
}
