package ledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"holdfast/core/content"
)

// conn is one database connection with its statements prepared once and kept.
// It speaks to the driver directly: database/sql would cost a third of a
// commit. It serves one goroutine at a time; whoever holds it says how.
type conn struct {
	raw   driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue // reused from statement to statement
}

func dial(ctx context.Context, c driver.Connector) (*conn, error) {
	raw, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]driver.Stmt{}}, nil
}

// close ends the connection; statements go with it.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

func (c *conn) stmt(ctx context.Context, q string) (driver.Stmt, error) {
	if s, ok := c.stmts[q]; ok {
		return s, nil
	}
	s, err := c.prepare(ctx, q)
	if err == nil {
		c.stmts[q] = s
	}
	return s, err
}

func (c *conn) prepare(ctx context.Context, q string) (driver.Stmt, error) {
	p, ok := c.raw.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("the driver cannot prepare with a context")
	}
	return p.PrepareContext(ctx, q)
}

func (c *conn) bind(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// exec runs a statement that is kept and returns how many rows it changed.
func (c *conn) exec(ctx context.Context, q string, args ...driver.Value) (int64, error) {
	s, err := c.stmt(ctx, q)
	if err != nil {
		return 0, err
	}
	return run(ctx, s, c.bind(args))
}

// once runs statements that are not kept: scripts, and pragmas, some of which
// act while they are prepared.
func (c *conn) once(ctx context.Context, q string) error {
	s, err := c.prepare(ctx, q)
	if err != nil {
		return err
	}
	_, err = run(ctx, s, nil)
	return errors.Join(err, s.Close())
}

func run(ctx context.Context, s driver.Stmt, args []driver.NamedValue) (int64, error) {
	e, ok := s.(driver.StmtExecContext)
	if !ok {
		return 0, errors.New("the driver cannot execute with a context")
	}
	res, err := e.ExecContext(ctx, args)
	if err != nil || res == nil {
		return 0, err
	}
	return res.RowsAffected()
}

// query runs a kept statement and calls each once a row. The row is valid
// during the call; its bytes and strings stay.
func (c *conn) query(ctx context.Context, q string, each func(*row) error, args ...driver.Value) (err error) {
	s, err := c.stmt(ctx, q)
	if err != nil {
		return err
	}
	sq, ok := s.(driver.StmtQueryContext)
	if !ok {
		return errors.New("the driver cannot query with a context")
	}
	rows, err := sq.QueryContext(ctx, c.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	r := row{v: make([]driver.Value, len(rows.Columns()))}
	for {
		if err := rows.Next(r.v); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := errors.Join(each(&r), r.err); err != nil {
			return err
		}
	}
}

// one is query for at most one row; found says whether there was one.
func (c *conn) one(ctx context.Context, q string, each func(*row) error, args ...driver.Value) (bool, error) {
	found := false
	err := c.query(ctx, q, func(r *row) error {
		found = true
		return each(r)
	}, args...)
	return found, err
}

// number is one for a single integer; 0 where there is none.
func (c *conn) number(ctx context.Context, q string, args ...driver.Value) (n int64, err error) {
	_, err = c.one(ctx, q, func(r *row) error { n = r.num(0); return nil }, args...)
	return n, err
}

// row is one result row. Null reads as the zero value. The first column of the
// wrong type or length is kept in err: STRICT tables hold none unless the file
// is damaged.
type row struct {
	v   []driver.Value
	err error
}

func (r *row) bad(k int, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: column %d is no %s", ErrCorrupt, k, want)
	}
}

func (r *row) num(k int) int64 {
	n, ok := r.v[k].(int64)
	if !ok && r.v[k] != nil {
		r.bad(k, "integer")
	}
	return n
}

func (r *row) flag(k int) bool { return r.num(k) != 0 }

func (r *row) text(k int) string {
	s, ok := r.v[k].(string)
	if !ok && r.v[k] != nil {
		r.bad(k, "text")
	}
	return s
}

func (r *row) bytes(k int) []byte {
	b, ok := r.v[k].([]byte)
	if !ok && r.v[k] != nil {
		r.bad(k, "blob")
	}
	return b
}

func (r *row) hash(k int) (id content.ID) {
	r.fixed(k, id[:])
	return id
}

func (r *row) fixed(k int, to []byte) {
	if b := r.bytes(k); b != nil && copy(to, b) != len(b) || b != nil && len(b) != len(to) {
		r.bad(k, fmt.Sprintf("%d bytes", len(to)))
	}
}

// Arguments of statements: zero values that are stored as null.

func nullText(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func nullHash(id content.ID) driver.Value {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func nullBytes(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

func bit(b bool) driver.Value {
	if b {
		return int64(1)
	}
	return int64(0)
}
