package ledger

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"holdfast/core/session"
)

// ErrCorrupt: the file, or something in it, does not read back as it was
// written. The error's text names what.
var ErrCorrupt = errors.New("ledger: damaged")

// ErrNewer: the file was made by a newer version of the program.
var ErrNewer = errors.New("ledger: made by a newer version")

// Error is what a person acts on: what was being done to which file, and what
// helps.
type Error struct {
	Op   string
	Path string
	Hint string
	Err  error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("ledger: %s: %v", e.Op, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// fail wraps an error of the engine with what was being done. Sentinels of the
// contract pass through with the operation in front.
func (d *DB) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	e := &Error{Op: op, Path: d.path, Err: err}
	switch code := resultCode(err); {
	case code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB || errors.Is(err, ErrCorrupt):
		e.Err = joined{ErrCorrupt, err}
		e.Hint = "run `holdfast sessions verify`; a damaged " + d.path + " can be moved away while the program is stopped, it starts a new one"
	case code == sqlite3.SQLITE_FULL:
		e.Err = joined{session.ErrFull, err}
		e.Hint = "free disk space, raise ledger.budget or delete sessions"
	case errors.Is(err, ErrNewer):
		e.Hint = "use the version that made " + d.path + ", or move it away"
	case code == sqlite3.SQLITE_BUSY:
		e.Hint = "another program holds " + d.path
	case code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN || code == sqlite3.SQLITE_PERM:
		e.Hint = "check the owner and mode of " + d.path + " and its folder"
	default:
		return fmt.Errorf("ledger: %s: %w", op, err)
	}
	return e
}

// resultCode is the engine's primary result code, 0 for other errors.
func resultCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// joined reads as its second error and is both.
type joined struct{ kind, err error }

func (j joined) Error() string   { return j.err.Error() }
func (j joined) Unwrap() []error { return []error{j.kind, j.err} }
