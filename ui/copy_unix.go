//go:build !headless && (linux || freebsd || openbsd || netbsd)

package ui

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// errNoClipboard says that neither display server could be reached.
var errNoClipboard = errors.New("ui: no clipboard")

// Copy puts a text on the clipboard. Wayland gives it only to a program with
// the focus, which wl-copy arranges; an X server is asked directly, because
// whoever copies there must stay to answer, and a tray does.
func Copy(text string) error {
	if os.Getenv("WAYLAND_DISPLAY") != "" {
		if name, err := exec.LookPath("wl-copy"); err == nil {
			cmd := exec.Command(name)
			cmd.Stdin = strings.NewReader(text)
			return cmd.Run()
		}
	}
	if os.Getenv("DISPLAY") == "" {
		return errNoClipboard
	}
	return own(text)
}

// selection is a text that one X client offers until another one copies.
type selection struct {
	conn *xgb.Conn
	text string
	// Atoms, in the order of atomNames.
	clipboard, targets, utf8 xproto.Atom
}

func atomNames() []string { return []string{"CLIPBOARD", "TARGETS", "UTF8_STRING"} }

// own takes the clipboard and answers for it in the background; the goroutine
// ends with the ownership.
func own(text string) error {
	conn, err := xgb.NewConn()
	if err != nil {
		return errors.Join(errNoClipboard, err)
	}
	s := &selection{conn: conn, text: text}
	if err := s.claim(); err != nil {
		conn.Close()
		return err
	}
	go s.answer()
	return nil
}

func (s *selection) claim() error {
	var atoms []xproto.Atom
	for _, name := range atomNames() {
		reply, err := xproto.InternAtom(s.conn, false, uint16(len(name)), name).Reply()
		if err != nil {
			return err
		}
		atoms = append(atoms, reply.Atom)
	}
	s.clipboard, s.targets, s.utf8 = atoms[0], atoms[1], atoms[2]
	window, err := xproto.NewWindowId(s.conn)
	if err != nil {
		return err
	}
	screen := xproto.Setup(s.conn).DefaultScreen(s.conn)
	err = xproto.CreateWindowChecked(s.conn, 0, window, screen.Root, 0, 0, 1, 1, 0, xproto.WindowClassInputOnly, 0, 0, nil).Check()
	if err != nil {
		return err
	}
	return xproto.SetSelectionOwnerChecked(s.conn, window, s.clipboard, xproto.TimeCurrentTime).Check()
}

// answer serves the text until the clipboard is another's.
func (s *selection) answer() {
	defer s.conn.Close()
	for {
		e, err := s.conn.WaitForEvent()
		switch e := e.(type) {
		case xproto.SelectionRequestEvent:
			s.give(e)
		case xproto.SelectionClearEvent:
			return
		case nil:
			if err == nil { // the server is gone
				return
			}
		}
	}
}

// give writes the text, or the list of its forms, where the asker wants it.
func (s *selection) give(e xproto.SelectionRequestEvent) {
	property := e.Property
	if property == xproto.AtomNone { // an old client
		property = e.Target
	}
	switch e.Target {
	case s.targets:
		data := make([]byte, 12)
		for i, atom := range []xproto.Atom{s.targets, s.utf8, xproto.AtomString} {
			xgb.Put32(data[4*i:], uint32(atom))
		}
		xproto.ChangeProperty(s.conn, xproto.PropModeReplace, e.Requestor, property, xproto.AtomAtom, 32, 3, data)
	case s.utf8, xproto.AtomString:
		xproto.ChangeProperty(s.conn, xproto.PropModeReplace, e.Requestor, property, e.Target, 8, uint32(len(s.text)), []byte(s.text))
	default:
		property = xproto.AtomNone
	}
	note := xproto.SelectionNotifyEvent{Time: e.Time, Requestor: e.Requestor, Selection: e.Selection, Target: e.Target, Property: property}
	xproto.SendEvent(s.conn, false, e.Requestor, xproto.EventMaskNoEvent, string(note.Bytes()))
}
