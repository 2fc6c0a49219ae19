//go:build !headless && (linux || freebsd || openbsd || netbsd)

package ui

import (
	"os"
	"strings"

	"github.com/godbus/dbus/v5"
)

const (
	portalName  = "org.freedesktop.portal.Desktop"
	portalPath  = "/org/freedesktop/portal/desktop"
	portalRead  = "org.freedesktop.portal.Settings.Read"
	portalTold  = "org.freedesktop.portal.Settings.SettingChanged"
	appearance  = "org.freedesktop.appearance"
	colorScheme = "color-scheme"
)

// watchBar tells the colour of the bar, at once and whenever it changes.
// GNOME's is dark whatever the scheme; other panels follow the scheme of the
// desktop, which the settings portal knows.
func watchBar() (bars <-chan Bar, stop func()) {
	out := make(chan Bar, 1)
	if strings.Contains(os.Getenv("XDG_CURRENT_DESKTOP"), "GNOME") {
		out <- DarkBar
		return out, func() {}
	}
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		out <- AnyBar
		return out, func() {}
	}
	out <- AnyBar // a portal that hangs must not hold up the icon
	signals := make(chan *dbus.Signal, 4)
	conn.Signal(signals)
	// Without a portal nothing ever comes; the icon for any bar stays.
	conn.AddMatchSignal(dbus.WithMatchInterface("org.freedesktop.portal.Settings"), dbus.WithMatchMember("SettingChanged"))
	go func() {
		latest(out, readBar(conn))
		for s := range signals {
			if s.Name == portalTold && len(s.Body) == 3 && s.Body[0] == appearance && s.Body[1] == colorScheme {
				latest(out, barOf(s.Body[2]))
			}
		}
	}()
	return out, func() { conn.Close() } // closes signals too
}

// latest puts a value into a channel of one, in place of one not yet taken.
func latest(out chan Bar, b Bar) {
	select {
	case <-out:
	default:
	}
	out <- b
}

func readBar(conn *dbus.Conn) Bar {
	var v dbus.Variant
	err := conn.Object(portalName, portalPath).Call(portalRead, 0, appearance, colorScheme).Store(&v)
	if err != nil {
		return AnyBar
	}
	return barOf(v)
}

// barOf reads the portal's answer, a number in one or two variants: 1 prefers
// dark, 2 prefers light, 0 does not say.
func barOf(v any) Bar {
	for {
		inner, ok := v.(dbus.Variant)
		if !ok {
			break
		}
		v = inner.Value()
	}
	switch v {
	case uint32(1):
		return DarkBar
	case uint32(2):
		return LightBar
	}
	return AnyBar
}
