package main

import (
	"html/template"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/adrg/xdg"

	"holdfast/core/guard"
	"holdfast/web/api"
)

// doorLife is how long a door file may lie around; the code in it is dead by
// then.
const doorLife = time.Minute

// door is the page that signs a browser in. It is a file, so its own script may
// run; without scripts the button does the same.
func door() *template.Template {
	return template.Must(template.New("door").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">
<title>Holdfast</title>
<form method="post" action="{{.Post}}"><input type="hidden" name="code" value="{{.Code}}"><input type="hidden" name="next" value="{{.Page}}">
<button>Open the inspector</button></form>
<script>document.forms[0].submit()</script></html>
`))
}

// doorFolder is where a browser can read a file of ours. Browsers in snaps see
// no hidden folders, so where snaps are in use it is the downloads folder.
func doorFolder(p Paths) string {
	if home, err := os.UserHomeDir(); err == nil && runtime.GOOS == "linux" {
		if _, err := os.Stat(filepath.Join(home, "snap")); err == nil && xdg.UserDirs.Download != "" {
			return xdg.UserDirs.Download
		}
	}
	return p.State
}

const doorName = "holdfast-open-"

func writeDoor(folder string, code api.LoginCode, page string) (file string, err error) {
	var text strings.Builder
	if err := door().Execute(&text, struct{ Post, Code, Page string }{code.Post, code.Code, page}); err != nil {
		return "", err
	}
	file = filepath.Join(folder, doorName+guard.NewSecret()[:16]+".html")
	return file, writeFile(file, []byte(text.String()))
}

// sweepDoors removes the files whose codes are dead.
func sweepDoors(folder string, now time.Time) {
	old, _ := filepath.Glob(filepath.Join(folder, doorName+"*.html")) // the pattern is sound
	for _, file := range old {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) > doorLife {
			os.Remove(file) // a file that stays holds nothing that works
		}
	}
}

// doors removes the files of codes that this process gave out: some time after
// each code died, and when the process ends, which ends all of them. What a
// crash left goes at the next start.
type doors struct {
	folder string
	alone  bool // nobody else's doors are in the folder

	mu     sync.Mutex // guards closed, and is held while files are removed
	closed bool
}

func openDoors(p Paths) *doors {
	d := &doors{folder: doorFolder(p)}
	d.alone = d.folder == p.State
	sweepDoors(d.folder, time.Now())
	return d
}

// given is called when a code is given out. Its file is written a moment later,
// so twice its life is waited.
func (d *doors) given() { time.AfterFunc(2*doorLife, d.sweep) }

func (d *doors) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		sweepDoors(d.folder, time.Now())
	}
}

// Close removes the files of every code. In a folder with files of others, the
// young ones stay: they may be theirs.
func (d *doors) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	now := time.Now()
	if d.alone {
		now = now.Add(2 * doorLife)
	}
	sweepDoors(d.folder, now)
}
