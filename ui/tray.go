//go:build !headless

package ui

import (
	"context"
	"reflect"
	"runtime"
	"strings"

	"fyne.io/systray"

	"holdfast/assets"
)

// Title is the name of the program on the desktop; on Linux it is also the
// steady name by which a panel remembers the icon.
const Title = "Holdfast"

// TrayOptions are the tray's neighbours.
type TrayOptions struct {
	// Updates brings every snapshot that differs from the one before. The first
	// must come soon: nothing is shown without it.
	Updates <-chan Snapshot
	// Do carries out a command. It is called on one goroutine, one at a time.
	Do func(Command)
}

// Tray shows icon and menu until ctx ends. It must be called on the goroutine
// that runs main, which the desktops of Windows and macOS insist on.
func Tray(ctx context.Context, o TrayOptions) {
	systray.SetTitle(Title) // before the item is exported: its Id follows from it
	t := &tray{do: o.Do, items: map[string]*systray.MenuItem{}, shown: map[string]Item{}, wishes: make(chan Command, 16)}
	done := make(chan struct{})
	systray.Run(func() { // the panel gets no menu before this returns
		ready := t.begin(ctx, o.Updates)
		go func() {
			defer close(done)
			if ready {
				t.run(ctx, o.Updates)
			}
			systray.Quit()
		}()
	}, nil)
	<-done
}

// tray is the menu on the screen. It belongs to the goroutine of run, except
// for wishes, which the goroutine of clicks fills and that of work empties.
type tray struct {
	do     func(Command)
	now    Snapshot
	items  map[string]*systray.MenuItem
	shown  map[string]Item // by key, as last drawn
	icon   string          // the file last shown
	tip    string
	wishes chan Command
}

// begin draws the first snapshot; false when there was none.
func (t *tray) begin(ctx context.Context, updates <-chan Snapshot) bool {
	select {
	case t.now = <-updates:
	case <-ctx.Done():
		return false
	}
	t.dress(AnyBar)
	t.build(nil, Menu(t.now))
	return true
}

func (t *tray) run(ctx context.Context, updates <-chan Snapshot) {
	bars, stop := watchBar()
	defer stop()
	bar := AnyBar
	keys, cases := t.channels(Menu(t.now), nil, nil)
	works := make(chan struct{})
	go func() { defer close(works); t.work() }()
	defer func() { close(t.wishes); <-works }()
	fixed := len(cases)
	cases = append(cases, receive(updates), receive(bars), receive(ctx.Done()))
	for {
		at, value, _ := reflect.Select(cases)
		switch at {
		case fixed:
			t.now = value.Interface().(Snapshot)
			t.update(Menu(t.now))
		case fixed + 1:
			bar = value.Interface().(Bar)
		case fixed + 2:
			return
		default:
			t.wish(t.shown[keys[at]].Does)
			continue
		}
		t.dress(bar)
	}
}

func receive(ch any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)}
}

// wish queues a command; a person who clicks faster than sixteen commands can
// be carried out has the rest ignored.
func (t *tray) wish(c Command) {
	select {
	case t.wishes <- c:
	default:
	}
}

func (t *tray) work() {
	for c := range t.wishes {
		t.do(c)
	}
}

// channels lists the click channels of all items with their keys.
func (t *tray) channels(menu []Item, keys []string, cases []reflect.SelectCase) ([]string, []reflect.SelectCase) {
	for _, it := range menu {
		if handle := t.items[it.Key]; handle != nil {
			keys, cases = append(keys, it.Key), append(cases, receive(handle.ClickedCh))
		}
		keys, cases = t.channels(it.Items, keys, cases)
	}
	return keys, cases
}

// build makes every item once, hidden ones too, so that they keep their place.
func (t *tray) build(parent *systray.MenuItem, menu []Item) {
	for _, it := range menu {
		if it.Separator {
			separator(parent)
			continue
		}
		handle := add(parent, it)
		t.items[it.Key] = handle
		t.shown[it.Key] = Item{Label: it.Label, Checked: it.Checked}
		t.build(handle, it.Items)
		t.change(it)
	}
}

func separator(parent *systray.MenuItem) {
	if parent == nil {
		systray.AddSeparator()
		return
	}
	parent.AddSeparator()
}

func add(parent *systray.MenuItem, it Item) *systray.MenuItem {
	label := escape(it.Label)
	switch {
	case parent == nil && it.Check:
		return systray.AddMenuItemCheckbox(label, "", it.Checked)
	case parent == nil:
		return systray.AddMenuItem(label, "")
	case it.Check:
		return parent.AddSubMenuItemCheckbox(label, "", it.Checked)
	}
	return parent.AddSubMenuItem(label, "")
}

// escape keeps a label from being read as one with an access key.
func escape(label string) string {
	switch runtime.GOOS {
	case "darwin":
		return label
	case "windows":
		return strings.ReplaceAll(label, "&", "&&")
	}
	return strings.ReplaceAll(label, "_", "__")
}

func (t *tray) update(menu []Item) {
	for _, it := range menu {
		if !it.Separator {
			t.change(it)
			t.update(it.Items)
		}
	}
}

// change brings one item up to date and touches nothing else: every call of
// the library is a signal to the panel. A hidden item is left as it is, because
// on Windows any change would show it.
func (t *tray) change(it Item) {
	handle, was := t.items[it.Key], t.shown[it.Key]
	t.shown[it.Key] = it
	if it.Hidden {
		if !was.Hidden {
			handle.Hide()
		}
		t.shown[it.Key] = Item{Label: was.Label, Checked: was.Checked, Disabled: was.Disabled, Hidden: true}
		return
	}
	if was.Hidden {
		handle.Show()
	}
	if it.Label != was.Label {
		handle.SetTitle(escape(it.Label))
	}
	if it.Checked != was.Checked {
		set(it.Checked, handle.Check, handle.Uncheck)
	}
	if it.Disabled != was.Disabled {
		set(it.Disabled, handle.Disable, handle.Enable)
	}
}

func set(on bool, yes, no func()) {
	if on {
		yes()
		return
	}
	no()
}

// dress shows icon and tooltip on a bar.
func (t *tray) dress(b Bar) {
	s := t.now
	if tip := StatusLine(s); tip != t.tip {
		t.tip = tip
		systray.SetTooltip(tip)
	}
	name := IconName(StateOf(s), b, iconExt())
	if name == t.icon {
		return
	}
	t.icon = name
	if runtime.GOOS == "darwin" { // the system inks a template to suit the bar
		systray.SetTemplateIcon(assets.Icon(IconName(StateOf(s), "template", "png")), assets.Icon(name))
		return
	}
	systray.SetIcon(assets.Icon(name))
}

func iconExt() string {
	if runtime.GOOS == "windows" {
		return "ico"
	}
	return "png"
}
