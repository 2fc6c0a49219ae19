//go:build !linux

package tier

// stepBehind does nothing where a thread has no priority of its own.
func stepBehind() {}
