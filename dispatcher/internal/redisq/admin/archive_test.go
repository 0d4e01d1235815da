package admin_test

import (
	"context"
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

func TestAProjectIsNotRepartitionedBeforeAllIsArchived(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 2)
	s := p.Open(2)
	f := admin.NewFeed(s.Bare())
	require.NoError(t, f.Begin(ctx))
	p.Publish(s, p.Entry("m", redisqtest.To16(0, 3)))
	to := func(n int, unarchived bool) error {
		_, err := admin.Repartition(ctx, p.Options, admin.RepartitionOptions{To: n, Unarchived: unarchived})
		return err
	}
	require.ErrorIs(t, to(3, false), admin.ErrUnarchived)
	wouldRefuse := func(unarchived bool) error {
		done, err := admin.Repartition(ctx, p.Options, admin.RepartitionOptions{To: 3, Unarchived: unarchived, DryRun: true})
		require.NoError(t, err)
		return done.Refused
	}
	require.ErrorIs(t, wouldRefuse(false), admin.ErrUnarchived, "a dry run says what the act does")
	require.NoError(t, wouldRefuse(true))
	before, err := f.States(ctx, []int{0, 1})
	require.NoError(t, err)
	for n := range 2 {
		part, err := f.Read(ctx, n, archive.Position{}, 100, 1<<20)
		require.NoError(t, err)
		require.NoError(t, f.Archived(ctx, []archive.Part{part}))
	}
	require.NoError(t, wouldRefuse(false))
	require.NoError(t, to(3, false))

	after := admin.NewFeed(p.Open(3).Bare())
	p.Publish(p.Open(3), p.Entry("m2", redisqtest.To16(0, 3)))
	states, err := after.States(ctx, []int{0, 1, 2})
	require.NoError(t, err)
	for n, s := range states {
		require.NotEmpty(t, s.Epoch)
		if n < 2 {
			require.NotEqual(t, before[n].Epoch, s.Epoch, "what lies there is another")
		}
	}
	p.Pass(time.Since(p.Now) + time.Hour) // the log was cut at the time of the repartition, by Redis' own clock
	p.Publish(p.Open(3), p.Entry("m3", redisqtest.To16(0, 16)))
	require.ErrorIs(t, to(2, false), admin.ErrUnarchived)
	require.NoError(t, to(2, true))
}

func TestDoctorEndsAnArchiveThatNoInstanceHas(t *testing.T) {
	ctx := context.Background()
	p := redisqtest.NewProject(t, redistest.Share(t), 1)
	s := p.Open(1)
	require.NoError(t, admin.NewFeed(s.Bare()).Begin(ctx))
	meta, archived := keys.Home(p.Options.Project)+keys.Meta, keys.Tag(p.Options.Project, 0)+keys.Archive
	beat := func(name string, archives bool) {
		o := p.Options
		o.Archive = archives
		one := redisqtest.Open(t, o)
		require.NoError(t, one.Join(ctx, name, dispatcher.Instance{Permits: 8, Version: "v1", StartedAt: p.Now}))
		_, _, err := one.Beat(ctx, name, 1)
		require.NoError(t, err)
		list, _, err := one.Instances(ctx, 9, "")
		require.NoError(t, err)
		require.Equal(t, "v1", list[0].Version)
	}
	examine := func(fix bool) (found []admin.Finding) {
		_, err := admin.Examine(ctx, s.Bare(), admin.Examination{Fix: fix, Still: time.Millisecond, Report: func(f admin.Finding) {
			if f.Kind == "unarchived" {
				found = append(found, f)
			}
		}})
		require.NoError(t, err)
		return found
	}
	require.Empty(t, examine(true), "no instance runs at all")
	beat("with", true)
	require.Empty(t, examine(true))
	require.NoError(t, s.Leave(ctx, "with"))
	beat("without", false)
	require.Len(t, examine(false), 1)
	require.Equal(t, "1", s.Client().HGet(ctx, meta, "archive").Val())
	found := examine(true)
	require.Len(t, found, 1)
	require.True(t, found[0].Fixed)
	require.Empty(t, s.Client().HGet(ctx, meta, "archive").Val())
	require.Empty(t, s.Client().HGet(ctx, archived, "p").Val())
	require.Empty(t, examine(true))
}
