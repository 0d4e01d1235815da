package postgres

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Most migrations only add columns and tables, so an older program works with the tables, too. A
// migration that is final in dispatcher.ArchiveUpgrades is not made by a running instance.
//
//go:embed migrations/*.sql
var migrations embed.FS

// texts returns the migrations in order. The first one makes version 1.
var texts = sync.OnceValue(func() (all []string) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	for i := 0; err == nil && i < len(files); i++ {
		var text []byte
		if text, err = migrations.ReadFile(files[i]); err == nil {
			all = append(all, string(text))
		}
	}
	if err != nil {
		panic(err) // they are embedded in the binary
	}
	return all
})

// changes describes the migrations.
var changes = dispatcher.ArchiveUpgrades()

// needsSince is the migration since which the table of versions has the column needs.
const needsSince = 9

// migrate creates the tables or adds the missing migrations.
func (s *session) migrate(ctx context.Context) error {
	newest := texts()
	version, err := s.version(ctx)
	if err != nil {
		return s.refused(ctx, 0, err)
	}
	if version > len(newest) {
		return usable(ctx, s.conn.QueryRow, s.schema, version)
	}
	if err := dispatcher.FirstFinalUpgrade(dispatcher.UpgradesAfter(changes, version)); err != nil && version > 0 && !s.final {
		return fmt.Errorf("%w: they have version %d, and %w", archive.ErrVersion, version, err)
	}
	for ; version < len(newest); version++ {
		err := s.transaction(ctx, func(ctx context.Context, s *session) error {
			return s.migrateTo(ctx, version+1, newest[version])
		})
		if err != nil {
			return s.refused(ctx, version, err)
		}
		s.log.InfoContext(ctx, "archive migrated", "version", version+1)
	}
	return nil
}

// Upgrade makes the missing migrations, also those that can't be rolled back. It returns the
// versions before and after.
func Upgrade(ctx context.Context, o Options) (before, after int, err error) {
	a, err := Open(o)
	if err != nil {
		return 0, 0, err
	}
	s, err := a.dial(ctx)
	if err != nil {
		return 0, 0, fault("upgrade the archive", err)
	}
	defer s.close()
	s.final = true
	if before, err = s.version(ctx); err == nil {
		err = s.migrate(ctx)
	}
	if err != nil {
		return 0, 0, fault("upgrade the archive", err)
	}
	after, err = s.version(ctx)
	return before, after, err
}

// rowFunc queries a connection, or a pool of them.
type rowFunc func(ctx context.Context, sql string, args ...any) pgx.Row

// usable returns an error if the tables are newer than this program, and it can't work with them.
func usable(ctx context.Context, row rowFunc, in schema, version int) error {
	known := len(texts())
	if version <= known {
		return nil
	}
	var needed int
	err := row(ctx, in.sql("select max(coalesce(needs, n)) from hookladder.version where n > $1"), known).Scan(&needed)
	if err == nil && needed > known {
		err = fmt.Errorf("%w: they have version %d, newer than this program's %d: update it", archive.ErrVersion, version, known)
	}
	return err
}

// version reads the version of the tables; 0 if there are none.
func (s *session) version(ctx context.Context) (version int, err error) {
	err = s.conn.QueryRow(ctx, s.schema.sql("select coalesce(max(n), 0) from hookladder.version")).Scan(&version)
	if noTables(err) {
		err = nil
	}
	return version, err
}

// migrateTo applies one migration. A lock ensures that one of several programs does it.
func (s *session) migrateTo(ctx context.Context, version int, text string) error {
	lock := fnv.New64a()
	_, _ = lock.Write([]byte("hookladder migration " + s.schema)) // it never returns an error
	if err := s.exec(ctx, "select pg_advisory_xact_lock($1)", int64(lock.Sum64())); err != nil {
		return err
	}
	there := false
	err := s.conn.QueryRow(ctx, "select to_regnamespace($1) is not null", string(s.schema)).Scan(&there)
	if err == nil && !there {
		err = s.exec(ctx, "create schema "+string(s.schema))
	}
	if err == nil {
		err = s.exec(ctx, "create table if not exists hookladder.version (n int primary key, made timestamptz not null default now())")
	}
	var now int
	if err == nil {
		now, err = s.version(ctx)
	}
	if err != nil || now >= version {
		return err
	}
	if _, err := s.conn.PgConn().Exec(ctx, s.schema.sql(text)).ReadAll(); err != nil {
		return err
	}
	if version < needsSince {
		return s.exec(ctx, "insert into hookladder.version (n) values ($1)", version)
	}
	needs := 0
	if dispatcher.FirstFinalUpgrade(dispatcher.UpgradeTo(changes, version)) != nil {
		needs = version
	}
	return s.exec(ctx, "insert into hookladder.version (n, needs) values ($1, $2)", version, needs)
}

// refused explains why the migration failed, and adds a fix if a right is missing.
func (s *session) refused(ctx context.Context, version int, err error) error {
	if codeOf(err) != codeForbidden {
		return err
	}
	if rollback := s.rollback(ctx); rollback != nil {
		return err
	}
	if version > 0 {
		return fmt.Errorf("%w: they have version %d, this program has %d, and its role may not change them: start it once as their owner",
			archive.ErrVersion, version, len(texts()))
	}
	var role, in string
	if s.conn.QueryRow(ctx, `
		select quote_ident(current_user), case when to_regnamespace($1) is null then 'create on database ' || quote_ident(current_database()) else 'usage, create on schema ' || $1 end`,
		string(s.schema)).Scan(&role, &in) != nil {
		return err
	}
	return &missingRight{err, fmt.Sprintf("the archive's tables can't be made: grant %s to %s", in, role)}
}

// missingRight is an error about a missing right. Its text says how to grant it.
type missingRight struct {
	cause error
	cure  string
}

func (r *missingRight) Error() string { return r.cure }
func (r *missingRight) Unwrap() error { return r.cause }
