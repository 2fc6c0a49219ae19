//go:build !headless && !(linux || freebsd || openbsd || netbsd)

package ui

import "github.com/atotto/clipboard"

// Copy puts a text on the clipboard.
func Copy(text string) error { return clipboard.WriteAll(text) }
