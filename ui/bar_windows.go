//go:build !headless

package ui

import (
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

const personalize = `Software\Microsoft\Windows\CurrentVersion\Themes\Personalize`

// watchBar tells the colour of the taskbar, at once and whenever it changes.
func watchBar() (bars <-chan Bar, stop func()) {
	out := make(chan Bar, 1)
	key, err := registry.OpenKey(registry.CURRENT_USER, personalize, registry.QUERY_VALUE|registry.NOTIFY)
	if err != nil {
		out <- DarkBar // Windows before the setting had a dark taskbar
		return out, func() {}
	}
	out <- readBar(key)
	go func() {
		for windows.RegNotifyChangeKeyValue(windows.Handle(key), false, windows.REG_NOTIFY_CHANGE_LAST_SET, 0, false) == nil {
			select {
			case <-out:
			default:
			}
			out <- readBar(key)
		}
	}()
	// Closing the key ends the wait, but Windows does not say when; the goroutine
	// holds nothing else, so nobody waits for it.
	return out, func() { key.Close() }
}

func readBar(key registry.Key) Bar {
	if light, _, err := key.GetIntegerValue("SystemUsesLightTheme"); err == nil && light == 1 {
		return LightBar
	}
	return DarkBar
}
