package main

import (
	"holdfast/core/kv"

	"golang.org/x/sys/unix"
)

// machineMemory is the machine's RAM, 0 where it is not known.
func machineMemory() kv.Bytes {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return kv.Bytes(uint64(s.Totalram) * uint64(s.Unit))
}
