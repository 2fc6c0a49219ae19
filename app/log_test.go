package main

import (
	"os"
	"strings"
	"testing"
)

// A log that was moved away by another program goes on under its own name, and
// nothing more is written to the old file.
func TestP28_C16_LogSurvivesRotationByOthers(t *testing.T) {
	home := t.TempDir()
	p := Paths{home, home, home}
	l := openLog(p, nil)
	defer l.Close()
	l.Info("before the move")
	if err := os.Rename(p.logFile(), p.logFile()+".1"); err != nil {
		t.Fatal(err)
	}
	l.Info("after the move")
	l.Info("and on")
	if err := os.Remove(p.logFile()); err != nil {
		t.Fatal(err)
	}
	l.Info("after the removal")
	for name, want := range map[string]string{p.logFile() + ".1": "before the move", p.logFile(): "after the removal"} {
		text, err := os.ReadFile(name)
		if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), want) {
			t.Errorf("%s holds %q, %v; want one line, %q", name, text, err, want)
		}
	}
}
