package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// A target is one fuzz function.
type target struct{ pkg, name string }

// fuzzTargets reads the output of go test -list -json: the names come as
// output lines of their package.
func fuzzTargets(in io.Reader) (out []target, err error) {
	dec := json.NewDecoder(in)
	for {
		var event struct{ Action, Package, Output string }
		switch err := dec.Decode(&event); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		name := strings.TrimSpace(event.Output)
		if event.Action == "output" && strings.HasPrefix(name, "Fuzz") {
			out = append(out, target{event.Package, name})
		}
	}
}
