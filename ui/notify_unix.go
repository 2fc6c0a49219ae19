//go:build !headless && (linux || freebsd || openbsd || netbsd)

package ui

import (
	"context"
	"time"

	"github.com/godbus/dbus/v5"
)

// notifyTime is how long a notification daemon may take to be started by the
// bus.
const notifyTime = 5 * time.Second

// Notify shows a notice of the desktop.
func Notify(n Notice) error {
	conn, err := dbus.SessionBus() // shared, and kept
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), notifyTime)
	defer cancel()
	hints := map[string]dbus.Variant{"desktop-entry": dbus.MakeVariant("app.holdfast.Holdfast"), "category": dbus.MakeVariant("device")}
	return conn.Object("org.freedesktop.Notifications", "/org/freedesktop/Notifications").
		CallWithContext(ctx, "org.freedesktop.Notifications.Notify", 0, Title, uint32(0), "app.holdfast.Holdfast",
			n.Title, n.Body, []string{}, hints, int32(-1)).Err
}
