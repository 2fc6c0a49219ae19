//go:build !headless && (linux || freebsd || openbsd || netbsd)

package ui

import (
	"context"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	watcherName = "org.kde.StatusNotifierWatcher"
	busName     = "org.freedesktop.DBus"
	ownerChange = "NameOwnerChanged"
)

// hostWait is how long a panel may take to come up after us, as it does when
// both are started at login.
const hostWait = 5 * time.Second

// TrayHosts tells whether this desktop shows tray icons, once that is certain,
// and whenever it changes.
func TrayHosts(ctx context.Context) <-chan bool {
	out := make(chan bool, 1)
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		out <- false
		return out
	}
	go func() {
		defer conn.Close()
		watchHosts(ctx, conn, out)
	}()
	return out
}

func watchHosts(ctx context.Context, conn *dbus.Conn, out chan<- bool) {
	signals := make(chan *dbus.Signal, 4)
	conn.Signal(signals)
	err := conn.AddMatchSignal(dbus.WithMatchInterface(busName), dbus.WithMatchMember(ownerChange), dbus.WithMatchArg(0, watcherName))
	var has bool
	if err == nil {
		err = conn.BusObject().Call(busName+".NameHasOwner", 0, watcherName).Store(&has)
	}
	certain := time.NewTimer(hostWait)
	defer certain.Stop()
	if err != nil || has {
		certain.Reset(0)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case s, ok := <-signals:
			if !ok {
				return
			}
			if len(s.Body) == 3 {
				has = s.Body[2] != ""
			}
			if has {
				certain.Reset(0)
			} else {
				certain.Reset(hostWait) // a panel that restarts is back soon
			}
		case <-certain.C:
			select {
			case out <- has:
			case <-ctx.Done():
			}
		}
	}
}
