package ledger

import "context"

func (d *DB) resumeDeletes(context.Context) error { return nil }
