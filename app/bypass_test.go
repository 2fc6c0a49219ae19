package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"holdfast/core/guard"
)

// TestBypassAsks: where sessions have grown past their window, the command asks
// on a terminal and refuses where there is none.
func TestBypassAsks(t *testing.T) {
	for _, c := range []struct {
		name     string
		yes      bool
		terminal bool
		asks, on bool
	}{
		{"nobody to ask", false, false, false, false},
		{"a terminal that says nothing", false, true, true, false},
		{"told not to ask", true, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := false
			b := &backend{send: func(r *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				var body struct{ On, Confirm bool }
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				if body.On && !body.Confirm {
					w.WriteHeader(http.StatusConflict)
					data, err := json.Marshal(guard.Problem{Status: http.StatusConflict, Code: "past_window", Title: "1 session is too long."})
					if err != nil {
						t.Error(err)
					}
					w.Write(data)
				} else {
					on = body.On
				}
				return w.Result(), nil
			}}
			var out bytes.Buffer
			cli := &cli{stdio: stdio{in: strings.NewReader("y\n"), out: io.Discard, err: &out}}
			if c.terminal { // a character device is one
				null, err := os.Open(os.DevNull)
				if err != nil {
					t.Fatal(err)
				}
				defer null.Close()
				cli.in = null
			}
			err := cli.setBypass(t.Context(), b, true, c.yes)
			var f *Fault
			if on != c.on || (err == nil) != c.on || err != nil && (!errors.As(err, &f) || f.Code != exitRefused) {
				t.Errorf("bypass %v, %v", on, err)
			}
			if asked := strings.Contains(out.String(), "too long"); asked != c.asks {
				t.Errorf("said %q", out.String())
			}
		})
	}
}
