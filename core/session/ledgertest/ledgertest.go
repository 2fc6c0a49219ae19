// Package ledgertest holds every implementation of session.Ledger to one
// suite. Its script plans with the real planner, so what is stored is what the
// chain stores.
package ledgertest
