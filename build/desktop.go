package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// desktopHeaders are what the window's C needs, by Debian package.
func desktopHeaders() map[string]string {
	return map[string]string{
		"GL/gl.h": "libgl1-mesa-dev", "X11/Xlib.h": "libx11-dev", "X11/Xcursor/Xcursor.h": "libxcursor-dev",
		"X11/extensions/Xrandr.h": "libxrandr-dev", "X11/extensions/Xinerama.h": "libxinerama-dev",
		"X11/extensions/XInput2.h": "libxi-dev", "X11/extensions/xf86vmode.h": "libxxf86vm-dev",
		"xkbcommon/xkbcommon.h": "libxkbcommon-dev", "wayland-client-core.h": "libwayland-dev",
	}
}

// needDesktop makes sure that the program can be built with its window.
func (r *runner) needDesktop() error {
	packages := []string{"gcc", "libc6-dev", "pkg-config"}
	missing := false
	for header, debian := range desktopHeaders() {
		packages = append(packages, debian)
		if _, err := os.Stat(filepath.Join("/usr/include", header)); errors.Is(err, fs.ErrNotExist) {
			missing = true
		}
	}
	if !missing {
		return r.needProgram("pkg-config", "pkg-config")
	}
	return r.install("the window's headers", packages...)
}

// needScreen makes sure that a desktop can be run without a screen.
func (r *runner) needScreen() error {
	return errors.Join(r.needProgram("Xvfb", "xvfb", "xauth", "libgl1-mesa-dri"), r.needProgram("dbus-daemon", "dbus"))
}

// desktop runs the program as a desktop sees it: on a bus and an X server of
// its own, with the test as its panel. The disk cache that the tray turns on
// needs a local engine.
func (r *runner) desktop() []job {
	program, headless := filepath.Join(r.cache, "bin", "holdfast-desktop"), filepath.Join(r.cache, "bin", "holdfast")
	return append(r.localEngine(), []job{
		{"install what the desktop builds with", r.needDesktop},
		{"install what a desktop is tested with", r.needScreen},
		{"build the program, with its desktop and without", func() error {
			return errors.Join(r.goCmd(withCgo(), "build", "-tags", desktopTags, "-o", program, "./app"),
				r.goCmd(noCgo(), "build", "-tags", tags, "-o", headless, "./app"))
		}},
		{"go vet, desktop", func() error { return r.goCmd(withCgo(), "vet", "-tags", desktopTags+",desktop", "./app", "./ui") }},
		{"desktop", func() error {
			shots := filepath.Join(r.root, "build", "out", "shots")
			if err := os.MkdirAll(shots, 0o755); err != nil {
				return err
			}
			env := append(withCgo(), "HOLDFAST_PROGRAM="+program, "HOLDFAST_HEADLESS="+headless, "HOLDFAST_SHOTS="+shots)
			return r.goCmd(env, "test", "-count=1", "-v", "-timeout", "15m", "-tags", desktopTags+",desktop", "-run", "^TestDesktop", "./app", "./ui")
		}},
	}...)
}

// install installs Debian packages, as root.
func (r *runner) install(what string, packages ...string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s are not installed; install them, or run as root on Debian: %v", what, packages)
	}
	return r.apt(packages...)
}
