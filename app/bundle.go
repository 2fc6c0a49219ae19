package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/web/api"
)

// logTail is how much of the log goes into a bundle: some thousand lines, the
// last hour of a busy day.
const logTail = 512 << 10

// bundle writes the redacted zip. It is built in memory and holds nothing that
// was not listed here: findings, settings (values only, no comments), status,
// sessions without titles and host ids, and the end of the log.
func (d *doctor) bundle(ctx context.Context, name string, checks []Check) error {
	files := map[string]any{
		"about.json":  map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH},
		"doctor.json": checks,
	}
	if d.settings != nil {
		c := d.settings.Current()
		files["config.json"] = c.Fields()
	}
	if d.backend != nil {
		var s api.Status
		if err := d.backend.get(ctx, "/hf/v1/status", &s); err != nil {
			return err
		}
		list, err := d.sessionsForBundle(ctx)
		if err != nil {
			return err
		}
		files["status.json"], files["sessions.json"] = s, list
	}
	data, err := zipped(files, d.logEnd())
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return &Fault{Code: exitFailed, What: "the bundle cannot be written", Err: err, Hint: "name a file in a folder you may write to"}
	}
	return nil
}

// sessionsForBundle lists the newest sessions without what people wrote. Ids of
// hosts and their agents may carry account names: a hash still tells them apart.
func (d *doctor) sessionsForBundle(ctx context.Context) ([]session.SessionView, error) {
	var list api.SessionList
	if err := d.backend.get(ctx, "/hf/v1/sessions?size=200", &list); err != nil {
		return nil, err
	}
	for i := range list.Sessions {
		s := &list.Sessions[i]
		s.Title = ""
		s.SessRaw = "hash " + content.Of([]byte(s.SessRaw)).String()[:12]
		if s.Lane != session.MainLane {
			s.Lane = "hash " + content.Of([]byte(s.Lane)).String()[:12]
		}
	}
	return list.Sessions, nil
}

// logEnd is the end of the log, masked again: it may have been written by an
// older version with fewer rules.
func (d *doctor) logEnd() []byte {
	f, err := os.Open(d.paths.logFile())
	if err != nil {
		return fmt.Appendf(nil, "no log: %v\n", err)
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, size-logTail), io.SeekStart)
		if err != nil {
			return fmt.Appendf(nil, "no log: %v\n", err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, logTail))
	if err != nil {
		return fmt.Appendf(nil, "no log: %v\n", err)
	}
	if i := bytes.IndexByte(data, '\n'); len(data) == logTail && i >= 0 {
		data = data[i+1:] // the first line is a piece
	}
	return []byte(mask(string(data)))
}

// zipped packs values as JSON, masked once more as text, and the log.
func zipped(files map[string]any, log []byte) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(name string, data []byte) error {
		w, err := z.Create("holdfast/" + name)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	for name, v := range files {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return nil, err
		}
		if err := add(name, []byte(mask(string(data)))); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(add("holdfast.log", log), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
