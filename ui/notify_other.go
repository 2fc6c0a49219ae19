//go:build !headless && !(linux || freebsd || openbsd || netbsd)

package ui

import (
	"github.com/gen2brain/beeep"

	"holdfast/assets"
)

// Notify shows a notice of the desktop.
func Notify(n Notice) error { return beeep.Notify(n.Title, n.Body, assets.Icon("holdfast-128.png")) }
