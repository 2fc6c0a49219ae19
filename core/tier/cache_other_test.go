//go:build !linux

package tier

// dropCache does nothing where a file cannot be taken out of the page cache: the
// benchmark then compares warm reads.
func dropCache(string) error { return nil }
