//go:build !linux

package main

import "holdfast/core/kv"

// machineMemory is not asked for here; the fixed bounds of the queue hold.
func machineMemory() kv.Bytes { return 0 }
