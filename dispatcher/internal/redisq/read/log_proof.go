package read

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/conn"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
)

// LogSuccess is a successful delivery. Its end time is the index of its proof,
// because the same script wrote both.
type LogSuccess struct {
	ID        dispatcher.DeliveryID
	Partition int
	Ended     time.Time
}

// Limits on a search. The first entry is nearly always the right one. If the
// second try finds nothing, the evidence counts as missing.
const (
	firstTry, secondTry = 2, 16   // entries
	triedBytes          = 1 << 20 // of one round trip
	before              = time.Millisecond
	behind              = time.Second
)

// search searches the lines of one ms of a partition.
type search struct {
	partition int
	ms        int64
	wanted    []int // positions in the list of requested deliveries
}

// Proofs returns the last attempts of successful deliveries, in their order. An
// attempt is nil if there is no evidence.
func (r *LogReader) Proofs(ctx context.Context, asked []LogSuccess) ([]*dispatcher.Attempt, error) {
	found := make([]*dispatcher.Attempt, len(asked))
	noted := make([]int64, len(asked)) // ms of a late success, whose delivery ended later
	take := func(at int, l *logLine) bool {
		switch {
		case l.verdict == "d" && l.code != '2' && found[at] == nil:
			a := l.attempt
			a.Verdict = dispatcher.Delivered
			found[at] = &a
		case l.verdict == "delivered":
			noted[at], _ = strconv.ParseInt(l.reason, 10, 64)
		default:
			return false
		}
		return true
	}
	ends := make([]int64, len(asked))
	for i := range asked {
		ends[i] = asked[i].Ended.UnixMilli()
	}
	err := r.seek(ctx, asked, ends, take)
	if err == nil && slices.Max(append(noted, 0)) > 0 {
		err = r.seek(ctx, asked, noted, take)
	}
	return found, err
}

// seek reads the log at the expected place of each delivery's line. The place
// is the ms of each delivery, and 0 skips it. take reports whether a line is
// the right one.
func (r *LogReader) seek(ctx context.Context, asked []LogSuccess, at []int64, take func(at int, l *logLine) bool) error {
	for _, entries := range []int{firstTry, secondTry} {
		var searches []search
		for i, ms := range at {
			k := slices.IndexFunc(searches, func(s search) bool { return s.ms == ms && s.partition == asked[i].Partition })
			switch {
			case ms == 0:
			case k < 0:
				searches = append(searches, search{asked[i].Partition, ms, []int{i}})
			default:
				searches[k].wanted = append(searches[k].wanted, i)
			}
		}
		at = slices.Clone(at)
		for some := range slices.Chunk(searches, triedBytes/(entries*entryBytes)) {
			if err := r.try(ctx, some, entries, func(s search, l *logLine) {
				for _, i := range s.wanted {
					if asked[i].ID == l.id && take(i, l) {
						at[i] = 0
					}
				}
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// try makes one round trip of searches.
func (r *LogReader) try(ctx context.Context, searches []search, entries int, visit func(s search, l *logLine)) error {
	in, answers := make([]int, len(searches)), make([]*redis.XMessageSliceCmd, len(searches))
	for i, s := range searches {
		in[i] = s.partition
	}
	err := r.conn.EachPartition(ctx, "read proofs", in, func(p redis.Pipeliner, i int) {
		from := strconv.FormatInt(max(searches[i].ms-before.Milliseconds(), 0), 10)
		to := strconv.FormatInt(searches[i].ms+behind.Milliseconds(), 10)
		answers[i] = p.XRangeN(ctx, r.conn.Tag(in[i])+keys.Attempts, from, to, int64(entries))
	})
	if err != nil {
		return err
	}
	for i, s := range searches {
		for _, e := range conn.Value(answers[i]) {
			lines := linesOf(e.Values)
			for k := range lines {
				visit(s, &lines[k])
			}
		}
	}
	return nil
}
