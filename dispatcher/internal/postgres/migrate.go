package postgres

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"sync"

	"github.com/hookladder/hookladder/dispatcher/archive"
)

// Migrations only add columns and tables, so an older program keeps working during a rolling update.
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

// migrate creates the tables or adds the missing migrations.
func (s *session) migrate(ctx context.Context) error {
	newest := texts()
	version, err := s.version(ctx)
	if err != nil {
		return s.refused(ctx, 0, err)
	}
	if version > len(newest) {
		return fmt.Errorf("%w: they have version %d, newer than this program's %d: update it", archive.ErrVersion, version, len(newest))
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
	return s.exec(ctx, "insert into hookladder.version (n) values ($1)", version)
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
