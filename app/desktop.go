//go:build !headless

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"holdfast/ui"
)

// desktop runs everything under a tray icon. A second start brings the first
// one forward instead; without a display it serves as serve does.
func (c *cli) desktop(ctx context.Context, o AppOptions, hidden bool) error {
	if !hasDisplay(c.getenv) {
		fmt.Fprintln(c.err, "There is no display here, so no tray icon: serving as holdfast serve does.")
		return c.serve(ctx, o)
	}
	if r, ok := findRunning(ctx, o.Paths); ok {
		return c.handOver(ctx, o.Paths, r, hidden)
	}
	a, err := Open(ctx, o)
	if errors.Is(err, errLocked) {
		return c.handOverSoon(ctx, o.Paths, hidden, err)
	}
	if err != nil {
		return err
	}
	c.printServing(a)
	return c.underTray(ctx, a, hidden)
}

// underTray serves and shows the tray; either one's end is that of both.
func (c *cli) underTray(ctx context.Context, a *App, hidden bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { defer cancel(); ran <- a.Run(ctx) }()
	b, err := connect(a.paths, a.Runtime)
	if err != nil {
		a.Quit()
		return errors.Join(err, <-ran, a.Close())
	}
	d := newDesk(b, c.getenv, a.log.Logger)
	forward := make(chan struct{}, 1)
	a.onActivate(func() {
		select {
		case forward <- struct{}{}:
		default: // one is on its way
		}
	})
	d.work.Go(func() { d.follow(ctx) })
	d.work.Go(func() { d.standIn(ctx, hidden, forward) })
	ui.Tray(ctx, ui.TrayOptions{Updates: d.updates, Do: func(cmd ui.Command) { d.do(ctx, cmd) }})
	cancel()
	d.work.Wait()
	return errors.Join(<-ran, a.Close())
}

// hasDisplay reports whether something can be shown to a person.
func hasDisplay(getenv func(string) string) bool {
	return runtime.GOOS == "windows" || runtime.GOOS == "darwin" || getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != ""
}

// handOver is what a second start does.
func (c *cli) handOver(ctx context.Context, p Paths, r Runtime, hidden bool) error {
	fmt.Fprintf(c.out, "Holdfast already runs (process %d); it was asked to come forward.\n", r.PID)
	if hidden {
		return nil
	}
	b, err := connect(p, r)
	if err != nil {
		return err
	}
	_, err = b.call(ctx, http.MethodPost, "/hf/v1/activate", nil)
	var f *Fault
	if errors.As(err, &f) { // it has no desktop, so this process opens the inspector
		return b.open(ctx, homePage)
	}
	return err
}

// homePage is the first page of the inspector.
const homePage = "/ui/"

// handOverTime is how long the first start may take until it answers.
const handOverTime = 10 * time.Second

// handOverSoon waits for a first start that is still at it.
func (c *cli) handOverSoon(ctx context.Context, p Paths, hidden bool, refused error) error {
	limit, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	for {
		if r, ok := findRunning(limit, p); ok {
			return c.handOver(ctx, p, r, hidden)
		}
		select {
		case <-limit.Done():
			return refused
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// standIn opens the window where the desktop has no tray, and answers a second
// start: with the inspector, and with the window where there is no tray.
func (d *desk) standIn(ctx context.Context, hidden bool, forward <-chan struct{}) {
	hosts := ui.TrayHosts(ctx)
	has, known := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case has = <-hosts:
			if !known && !has && !hidden {
				d.openWindow(ctx)
			}
			if !known && !has && hidden {
				d.notify(ui.Notice{Title: "Holdfast runs without a tray icon", Body: "This desktop shows none. Start Holdfast again, or run holdfast open, to see it."})
			}
			known = true
		case <-forward:
			if known && !has {
				d.openWindow(ctx)
			}
			d.do(ctx, ui.Command{Kind: ui.OpenPage, Arg: homePage})
		}
	}
}

// onActivate says what brings the desktop forward; forward must not block.
func (a *App) onActivate(forward func()) { a.activate.Store(&forward) }
