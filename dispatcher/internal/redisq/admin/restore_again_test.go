package admin_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/admin"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/keys"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/redisqtest"
)

// The partitions lie on three servers. Whatever of them the first restore had filled when it
// was killed, the next one puts back the rest, and nothing twice.
func TestARestoreThatWasKilledIsRepeatedInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	ctx := t.Context()
	for cut, name := range []string{"it held the store", "ids were known", "half was put back", "all was put back"} {
		t.Run(name, func(t *testing.T) {
			p := redisqtest.NewProject(t, cluster, 6)
			was := lose(t, p)
			killed := p.Open(6)
			first := admin.NewRestoreTarget(killed.Bare(), "first")
			require.NoError(t, first.Hold(ctx))
			if cut > 0 {
				require.NoError(t, first.PutKnown(ctx, was.known))
			}
			some := was.open[:[]int{0, 0, len(was.open) / 2, len(was.open)}[cut]]
			_, err := first.Put(ctx, some)
			require.NoError(t, err)
			if cut == 3 {
				_, err = first.PutDead(ctx, was.dead)
				require.NoError(t, err)
			}

			s := p.Open(6)
			second := admin.NewRestoreTarget(s.Bare(), "second")
			puts, dead := putBack(t, second, was)
			want := map[string]string{}
			for i, put := range puts {
				o := &was.open[i]
				want[o.ID.String()] = described(o, p.Now)
				require.Equal(t, i < len(some), put == archive.PutExists, "%s: %v", o.ID, put)
			}
			for i, put := range dead {
				require.Equal(t, cut == 3, put == archive.PutExists, "%s: %v", was.dead[i].ID, put)
			}
			require.NoError(t, second.Release(ctx))
			require.Equal(t, want, unfinished(t, s, p.Now))
			mustBeSound(t, p, 6)
			lanes, err := s.Bare().LaneReader.LaneStates(ctx, []dispatcher.Lane{dispatcher.AllLanes})
			require.NoError(t, err)
			require.Equal(t, dispatcher.LaneNormal, lanes[0].Limits.Mode, "the hold of the first restore is over, too")
		})
	}
}

// An instance may trim between the body of a delivery and the delivery itself.
func TestABodyThatIsPutBackIsNotOldForATrim(t *testing.T) {
	restoreOnRedis(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		p := redisqtest.NewProject(t, server, 1)
		was := lose(t, p)
		k := slices.IndexFunc(was.open, func(o archive.Open) bool {
			return redisqtest.Unarchive(t, o.ID.Message, o.Head, nil).Apart != nil
		})
		p.Pass(2 * time.Hour)
		s := p.Open(1)
		target := admin.NewRestoreTarget(s.Bare(), "one")
		other := archive.Known{ID: was.open[k].ID.Message, Lane: was.open[k].ID.Lane, Ended: p.Now} // so that the body stays as it came
		require.NoError(t, target.Hold(ctx))
		require.NoError(t, target.PutKnown(ctx, []archive.Known{other}))
		puts, err := target.Put(ctx, was.open[k:k+1])
		require.NoError(t, err)
		require.Equal(t, []archive.Put{archive.PutConflict}, puts)
		staged, err := s.Client().ZRangeWithScores(ctx, keys.Tag(p.Options.Project, 0)+keys.Staged, 0, -1).Result()
		require.NoError(t, err)
		require.Len(t, staged, 1)
		require.InDelta(t, float64(p.Now.UnixMilli()), staged[0].Score, float64(time.Minute.Milliseconds()))
	})
}
