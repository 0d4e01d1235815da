package pgtest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/deploy/kit"
	"github.com/hookladder/hookladder/deploy/kit/pgtest"
)

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	for range 2 {
		_, err := mustConnect(t, pgtest.New(t)).Exec(t.Context(), "create table own (n int)")
		require.NoError(t, err)
	}
}

func TestAServerKeepsWhatItConfirmedOverAKill(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{Fsync: true})
	s.Exec("create table kept (n int)", "insert into kept values (7)")
	c := mustConnect(t, s.URL())
	s.Kill()
	_, err := c.Exec(t.Context(), "select 1")
	require.Error(t, err)
	s.Restart()
	require.Equal(t, 7, mustRead(t, s.URL(), "select n from kept"))
	s.Stop()
	s.Restart()
	require.Equal(t, 7, mustRead(t, s.URL(), "select n from kept"))
}

func TestAPoolerStartsAgainAfterAKill(t *testing.T) {
	p := pgtest.StartPooler(t, pgtest.New(t), 1)
	c := mustConnect(t, p.URL())
	p.Kill()
	require.Error(t, c.Ping(t.Context()))
	p.Restart()
	require.NoError(t, mustConnect(t, p.URL()).Ping(t.Context()))
}

func TestADiskIsFullAndFreeAgain(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{Disk: 96 << 20})
	s.Exec("create table big (b bytea)", "alter table big alter b set storage external")
	const insert = "insert into big select convert_to(repeat('x', 4000000), 'UTF8')"
	s.Fill()
	_, err := mustConnect(t, s.URL()).Exec(t.Context(), insert)
	require.Error(t, err)
	s.Free()
	kitUntil(t, func() error { // it may be recovering
		c, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			return err
		}
		defer c.Close(t.Context()) //nolint:errcheck // all was answered
		_, err = c.Exec(t.Context(), insert)
		return err
	})
}

// TestNothingIsLeft runs this test binary once more, and kills it while it has servers.
func TestNothingIsLeft(t *testing.T) {
	if os.Getenv("PGTEST_CHILD") != "" {
		s := pgtest.Start(t, pgtest.Options{Disk: 96 << 20})
		_ = pgtest.New(t)
		_ = s
		println("folder", mustText(t, s.URL(), "show data_directory"))
		<-context.Background().Done()
	}
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := kit.Start(kit.Command{
		Name: "test", Path: self, Args: []string{"-test.run", "^TestNothingIsLeft$"}, Env: append(os.Environ(), "PGTEST_CHILD=1"),
	})
	require.NoError(t, err)
	line, err := p.Line(t.Context(), "folder")
	require.NoError(t, err)
	dir := filepath.Dir(filepath.Dir(strings.TrimPrefix(line, "folder ")))
	require.DirExists(t, dir)
	p.Kill()
	kitUntil(t, func() error {
		if _, err := os.Stat(dir); err == nil {
			return os.ErrExist
		}
		commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range commands {
			if text, _ := os.ReadFile(file); strings.Contains(string(text), dir) {
				return fmt.Errorf("%s is there: %s", file, text)
			}
		}
		return err
	})
}

func kitUntil(t *testing.T, ok func() error) {
	t.Helper()
	require.NoError(t, kit.Until(t.Context(), "so", ok))
}

func mustConnect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func mustRead(t *testing.T, url, query string) (n int) {
	t.Helper()
	require.NoError(t, mustConnect(t, url).QueryRow(t.Context(), query).Scan(&n))
	return n
}

func mustText(t *testing.T, url, query string) (text string) {
	t.Helper()
	require.NoError(t, mustConnect(t, url).QueryRow(t.Context(), query).Scan(&text))
	return text
}
