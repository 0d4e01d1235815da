package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
	"github.com/hookladder/hookladder/deploy/kit/redistest"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// journal is the log of a store with several partitions, of which anybody may read.
// Entry n of a partition accepts a message, and delivers the one before it.
type journal struct {
	mu      sync.Mutex // guards entries
	entries []int      // there are so many, for each partition
}

func (j *journal) id(partition, n int) string { return fmt.Sprintf("m-%d-%d", partition, n) }

// grow logs more.
func (j *journal) grow(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for p := range j.entries {
		j.entries[p] += n
	}
}

// read is what stands behind a position: some entries at once.
func (j *journal) read(h *archive.PartitionLease) archive.Part {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := archive.Part{Partition: h.Partition, Epoch: h.Epoch, From: h.At, To: h.At}
	for n := int(h.At.MS); n < min(j.entries[h.Partition], int(h.At.MS)+40); n++ {
		m := acceptedAt(now, j.id(h.Partition, n))
		m.Pos = int64(2 * n)
		p.Accepted = append(p.Accepted, m)
		if n > 0 {
			e := event(archive.Delivered, j.id(h.Partition, n-1), 1)
			e.Pos = int64(2*n + 1)
			p.Events = append(p.Events, e)
		}
		p.To.MS = int64(n + 1)
	}
	return p
}

// rivalRest spares the processor while there is nothing to write, or no server.
const rivalRest = 5 * time.Millisecond

// archive does what an instance's archiver does, until ctx ends.
func (j *journal) archive(ctx context.Context, by string, a archive.Archive, want []archive.Want, kept func(int)) error {
	for {
		leases, err := a.Lease(ctx, by, want)
		for again := err == nil; again; {
			again = false
			var parts []archive.Part
			for i := range leases {
				if p := j.read(&leases[i]); p.To != p.From {
					leases[i].Last = p.Number(leases[i].Last)
					leases[i].At = p.To
					parts = append(parts, p)
				}
			}
			if len(parts) > 0 {
				if _, err = a.Write(ctx, by, parts); err == nil {
					kept(len(parts))
					again = true
				}
			}
		}
		if !kit.Rest(ctx, rivalRest) {
			return nil
		}
		if err != nil && !errors.Is(err, archive.ErrUnavailable) && !errors.Is(err, archive.ErrMoved) {
			return err
		}
	}
}

func TestRivalsKeepEverythingOnceWhileTheServerIsKilled(t *testing.T) {
	redistest.Long(t)
	s := pgtest.Start(t, pgtest.Options{Fsync: true})
	j := &journal{entries: make([]int, 4)}
	want := wants("e0", "e1", "e2", "e3")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var rivals sync.WaitGroup
	written := make(chan string, 1000)
	for _, by := range []string{"a", "b"} {
		a := newTestArchive(t, s.URL())
		rivals.Go(func() {
			err := j.archive(ctx, by, a, want, func(int) {
				select {
				case written <- by:
				default:
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for n := range 5 {
		j.grow(200)
		<-written // it is in the middle of it
		s.Kill()
		s.Restart()
		if n%3 == 0 { // the other one takes over
			s.Exec("update hookladder.position set until = now()")
		}
		for len(written) > 0 {
			<-written
		}
		j.grow(50)
	}
	total := j.entries[0]
	require.NoError(t, kit.Until(t.Context(), "all is kept", func() error {
		if at := read(t, s.URL(), "select min(ms) from hookladder.position"); at[0] != fmt.Sprint(total) {
			return fmt.Errorf("%s of %d", at[0], total)
		}
		return nil
	}))
	stop()
	rivals.Wait()
	all, ended := fmt.Sprint(4*total), fmt.Sprint(4*(total-1))
	require.Equal(t, []string{all + " " + all}, read(t, s.URL(), "select count(*) || ' ' || count(distinct id) from hookladder.message"))
	require.Equal(t, []string{ended + " " + ended}, read(t, s.URL(), "select count(*) || ' ' || count(distinct (id, lane)) from hookladder.event"))
	require.Len(t, read(t, s.URL(), "select id from hookladder.open"), 4, "the last ones")
	require.Equal(t, []string{ended}, read(t, s.URL(), "select count(distinct (partition, pos)) from hookladder.event"))
}

func TestAFullDiskIsWaitedFor(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{Disk: 128 << 20})
	a, l := newTestArchive(t, s.URL()), newLine()
	l.hold(t, a)
	s.Exec("alter table hookladder.message alter body set storage external")
	l.write(t, a, accepted("before"))
	s.Fill()
	large := acceptedAt(now, "large")
	large.Body = make([]byte, 4<<20)
	p := l.part([]archive.Accepted{large}, event(archive.Delivered, "before", 1))
	_, err := a.Write(t.Context(), me, []archive.Part{p})
	require.ErrorIs(t, err, archive.ErrUnavailable)
	s.Free()
	keep(t, a, p)
	require.Equal(t, []string{"2 1 1"}, read(t, s.URL(), "select concat_ws(' ', (select count(*) from hookladder.message), (select count(*) from hookladder.event), (select count(*) from hookladder.open))"))
}

// keep writes a part as soon as the archive takes it, and whatever became of the tries
// before: a try whose answer was lost may have done it.
func keep(t testing.TB, a archive.Archive, p archive.Part) {
	t.Helper()
	require.NoError(t, kit.Until(t.Context(), "the part is kept", func() error {
		leases, err := a.Lease(t.Context(), me, []archive.Want{{Partition: p.Partition, Epoch: p.Epoch}})
		if err != nil || len(leases) == 0 {
			return errors.Join(err, errors.New("not held"))
		}
		if leases[0].At == p.To {
			return nil
		}
		_, err = a.Write(t.Context(), me, []archive.Part{p})
		return err
	}))
}

func TestAServerThatOnlyReadsIsWaitedFor(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	a, l := newTestArchive(t, s.URL()), newLine()
	l.hold(t, a)
	readOnly := func(on string) {
		s.Exec("set default_transaction_read_only = off", "alter system set default_transaction_read_only = "+on, "select pg_reload_conf()")
		require.NoError(t, kit.Until(t.Context(), "the setting holds", func() error {
			if got := read(t, s.URL(), "show default_transaction_read_only"); got[0] != on {
				return errors.New(got[0])
			}
			return nil
		}))
	}
	readOnly("on")
	p := l.part(accepted("a"))
	for range 3 { // on the connection there is, and on new ones
		_, err := a.Write(t.Context(), me, []archive.Part{p})
		require.ErrorIs(t, err, archive.ErrUnavailable)
	}
	readOnly("off")
	keep(t, a, p)
	require.Equal(t, []string{"a"}, read(t, s.URL(), "select id from hookladder.message"))
}

func TestOfSeveralServersTheOneThatTakesWritesIsUsed(t *testing.T) {
	standby := pgtest.Start(t, pgtest.Options{Settings: []string{"default_transaction_read_only = on"}})
	primary := pgtest.Start(t, pgtest.Options{})
	host := func(s *pgtest.Server) string {
		u, err := url.Parse(s.URL())
		require.NoError(t, err)
		return u.Host
	}
	both := strings.Replace(primary.URL(), host(primary), host(standby)+","+host(primary), 1)
	a, l := newTestArchive(t, both), newLine()
	l.hold(t, a)
	l.write(t, a, accepted("a"))
	require.Equal(t, []string{"a"}, read(t, primary.URL(), "select id from hookladder.message"))
}

func TestARestartIsNoticedAtOnce(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{})
	a, l := newTestArchive(t, s.URL()), newLine()
	l.hold(t, a)
	for n := range 3 {
		p := l.part(accepted(fmt.Sprint(n)))
		if n == 1 {
			s.Stop()
		} else {
			s.Kill()
		}
		_, err := a.Write(t.Context(), me, []archive.Part{p})
		require.ErrorIs(t, err, archive.ErrUnavailable)
		s.Restart()
		keep(t, a, p)
	}
	require.Len(t, read(t, s.URL(), "select id from hookladder.message"), 3)
}

func TestACallThatIsGivenUpKeepsNothing(t *testing.T) {
	url := pgtest.New(t)
	a, l := newTestArchive(t, url), newLine()
	l.hold(t, a)
	locks := reader(t, url, "position")
	_, err := locks.Exec(t.Context(), "select from hookladder.position for update")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	p := l.part(accepted("a"))
	done := make(chan error)
	go func() {
		_, err := a.Write(ctx, me, []archive.Part{p})
		done <- err
	}()
	require.NoError(t, kit.Until(t.Context(), "it waits for the row", func() error {
		if n := read(t, url, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"); n[0] != "1" {
			return errors.New(n[0])
		}
		return nil
	}))
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	_, err = locks.Exec(t.Context(), "rollback")
	require.NoError(t, err)
	keep(t, a, p)
	require.Equal(t, []string{"a"}, read(t, url, "select id from hookladder.message"))
}
