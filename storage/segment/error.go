package segment

import "errors"

// ErrOwned says that another process has the store open.
var ErrOwned = errors.New("segment: the cache is open in another process")

// ErrBusy says that a pack is being read and was left as it is.
var ErrBusy = errors.New("segment: the pack is being read")

// Error is a root somebody has to put right.
type Error struct {
	Op, Path string
	What     string // what is wrong and what it means
	Hint     string // what to do
	Err      error  // the cause, nil for none
}

func (e *Error) Error() string {
	s := "segment: " + e.Op + " " + e.Path + ": " + e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Advice is the hint, for callers that do not know the type.
func (e *Error) Advice() string { return e.Hint }

func (e *Error) Unwrap() error { return e.Err }

// Busy reports whether an error is, or holds, ErrBusy.
func (s *Store) Busy(err error) bool { return errors.Is(err, ErrBusy) }

// Reason is a stable code for status: what kept the store from opening.
func (e *Error) Reason() string {
	if errors.Is(e.Err, ErrOwned) {
		return "owned_elsewhere"
	}
	return "storage_unavailable"
}
