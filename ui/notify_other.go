//go:build !headless && !(linux || freebsd || openbsd || netbsd)

package ui

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/app"
)

// Notify shows a notice of the desktop. Fyne knows how; no window of it opens.
func Notify(n Notice) error {
	a := fyne.CurrentApp()
	if a == nil {
		a = app.NewWithID("app.holdfast.Holdfast")
	}
	a.SendNotification(fyne.NewNotification(n.Title, n.Body))
	return nil
}
