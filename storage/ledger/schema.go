package ledger

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed sql/schema/*.sql sql/migrations/*.sql
var sqlFiles embed.FS

// appID is PRAGMA application_id: "HFST". A file of another program is refused.
const appID = 0x48465354

// snapshotFile makes the tables the owner may drop; it runs at every open.
const snapshotFile = "sql/schema/50-snapshot.sql"

// migration is one numbered step from the version before it.
type migration struct {
	version int64
	sql     string
}

// migrations reads the numbered files of fsys in order.
func migrations(fsys fs.FS) ([]migration, error) {
	names, err := fs.Glob(fsys, "sql/migrations/*.sql") // sorted by name
	if err != nil {
		return nil, err
	}
	var out []migration
	for _, name := range names {
		no, _, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], "-")
		v, err := strconv.ParseInt(no, 10, 64)
		if err != nil || v != int64(len(out))+1 {
			return nil, fmt.Errorf("migration %s is not number %d", name, len(out)+1)
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		out = append(out, migration{v, string(b)})
	}
	return out, nil
}

// migrate brings the file to the newest version: a new one from the schema, an
// older one by the steps it lacks. Each runs in one transaction with the
// version number, so a crash leaves the version before or after.
func migrate(ctx context.Context, c *conn, fsys fs.FS) error {
	steps, err := migrations(fsys)
	if err != nil {
		return err
	}
	have, err := c.number(ctx, "PRAGMA user_version")
	if err != nil {
		return err
	}
	app, err := c.number(ctx, "PRAGMA application_id")
	if err != nil {
		return err
	}
	tables, err := c.number(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	newest := int64(len(steps))
	switch {
	case have == 0 && app == 0 && tables == 0:
		return create(ctx, c, fsys, newest)
	case app != appID:
		return fmt.Errorf("%w: it is a database of another program", ErrCorrupt)
	case have > newest:
		return fmt.Errorf("%w: version %d, this program reads %d", ErrNewer, have, newest)
	}
	for _, m := range steps[have:] {
		if err := c.once(ctx, inOne(m.sql, m.version)); err != nil {
			return unwind(ctx, c, fmt.Errorf("migration %d: %w", m.version, err))
		}
	}
	return runFile(ctx, c, fsys, snapshotFile)
}

func create(ctx context.Context, c *conn, fsys fs.FS, version int64) error {
	names, err := fs.Glob(fsys, "sql/schema/*.sql")
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		all.Write(b)
	}
	if err := c.once(ctx, inOne(all.String(), version)); err != nil {
		return unwind(ctx, c, fmt.Errorf("create: %w", err))
	}
	return nil
}

func runFile(ctx context.Context, c *conn, fsys fs.FS, name string) error {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	return c.once(ctx, string(b))
}

func inOne(sql string, version int64) string {
	return fmt.Sprintf("BEGIN IMMEDIATE;\n%s\n;PRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT;", sql, appID,
		version)
}

// unwind ends the transaction a failed script left open and returns err. That
// there is none is no news.
func unwind(ctx context.Context, c *conn, err error) error {
	_ = c.once(ctx, "ROLLBACK")
	return err
}
