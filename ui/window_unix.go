//go:build !headless && (linux || freebsd || openbsd || netbsd)

package ui

import (
	"context"
	"sync/atomic"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/app"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/theme"
	"fyne.io/fyne/v2/widget"

	"holdfast/assets"
)

// WindowOptions are the window's neighbours.
type WindowOptions struct {
	Updates <-chan Snapshot
	Do      func(Command)
}

// hint is what the window says about itself.
const hint = "This desktop shows no tray icons, so here is the menu. Closing this window leaves Holdfast running; starting Holdfast again brings it back. On GNOME, the AppIndicator extension adds a tray."

// Window shows the menu as a window until it is closed or ctx ends. It must be
// called on the goroutine that runs main.
func Window(ctx context.Context, o WindowOptions) {
	a := app.NewWithID("app.holdfast.Holdfast")
	icon := fyne.NewStaticResource("holdfast.png", assets.Icon("holdfast-256.png"))
	a.SetIcon(icon)
	w := a.NewWindow(Title)
	w.SetIcon(icon)
	var ended atomic.Bool
	a.Lifecycle().SetOnStopped(func() { ended.Store(true) })
	a.Lifecycle().SetOnStarted(func() {
		go func() {
			for {
				select {
				case s := <-o.Updates:
					fyne.Do(func() { w.SetContent(Panel(s, o.Do, w)) })
				case <-ctx.Done():
					if !ended.Load() {
						fyne.Do(a.Quit)
					}
					return
				}
			}
		}()
	})
	select { // an empty window would only flash
	case s := <-o.Updates:
		w.SetContent(Panel(s, o.Do, w))
	case <-ctx.Done():
		return
	}
	w.Resize(fyne.NewSize(440, 560))
	w.ShowAndRun()
}

// Panel draws the menu of a snapshot as widgets.
func Panel(s Snapshot, do func(Command), w fyne.Window) fyne.CanvasObject {
	logo := canvas.NewImageFromResource(fyne.NewStaticResource(StateOf(s).String()+".png", assets.Icon(IconName(StateOf(s), AnyBar, "png"))))
	logo.FillMode = canvas.ImageFillContain
	logo.SetMinSize(fyne.NewSquareSize(36))
	status := widget.NewLabelWithStyle(StatusLine(s), fyne.TextAlignLeading, fyne.TextStyle{Bold: true})
	note := widget.NewLabel(hint)
	note.Wrapping = fyne.TextWrapWord
	note.SizeName = theme.SizeNameCaptionText
	rows := container.NewVBox()
	for _, it := range Menu(s)[1:] { // the first line is the status
		if row := line(it, do, w); row != nil {
			rows.Add(row)
		}
	}
	return container.NewBorder(container.NewVBox(container.NewPadded(container.NewBorder(nil, nil, logo, nil, status)), note), nil, nil, nil,
		container.NewVScroll(container.NewPadded(rows)))
}

// line is one item as a widget, nil for a hidden one. A command runs beside
// the window's own goroutine, which must not wait for it.
func line(it Item, do func(Command), w fyne.Window) fyne.CanvasObject {
	act := func() { go do(it.Does) }
	switch {
	case it.Hidden:
		return nil
	case it.Separator:
		return widget.NewSeparator()
	case it.Check:
		c := widget.NewCheck(it.Label, nil)
		c.SetChecked(it.Checked)
		c.OnChanged = func(bool) { act() }
		return c
	case len(it.Items) > 0:
		return submenu(it, do, w)
	}
	b := widget.NewButton(it.Label, act)
	b.Alignment = widget.ButtonAlignLeading
	if it.Disabled {
		b.Disable()
	}
	if it.Key == "open" {
		b.Importance = widget.HighImportance
	}
	return b
}

// submenu is a button that opens a menu below itself.
func submenu(it Item, do func(Command), w fyne.Window) fyne.CanvasObject {
	var items []*fyne.MenuItem
	for _, sub := range it.Items {
		switch {
		case sub.Hidden:
		case sub.Separator:
			items = append(items, fyne.NewMenuItemSeparator())
		default:
			m := fyne.NewMenuItem(sub.Label, func() { go do(sub.Does) })
			m.Checked, m.Disabled = sub.Checked, sub.Disabled
			items = append(items, m)
		}
	}
	b := widget.NewButtonWithIcon(it.Label, theme.MenuDropDownIcon(), nil)
	b.Alignment, b.IconPlacement = widget.ButtonAlignLeading, widget.ButtonIconTrailingText
	b.OnTapped = func() {
		at := fyne.CurrentApp().Driver().AbsolutePositionForObject(b).AddXY(0, b.Size().Height)
		widget.ShowPopUpMenuAtPosition(fyne.NewMenu("", items...), w.Canvas(), at)
	}
	return b
}
