//go:build !headless

package main

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"holdfast/ui"
)

// do carries out a command; what fails is told to the person.
func (d *desk) do(ctx context.Context, c ui.Command) {
	if err := d.try(ctx, c); err != nil && ctx.Err() == nil {
		d.log.Warn("a command of the desktop failed", "command", c.Kind, "error", err)
		d.notify(failure(err))
	}
	d.look()
}

// failure is the notice of an error.
func failure(err error) ui.Notice {
	n := ui.Notice{Title: "That did not work", Body: err.Error()}
	var f *Fault
	if errors.As(err, &f) && f.Hint != "" {
		n.Body += ". " + strings.ToUpper(f.Hint[:1]) + f.Hint[1:] + "."
	}
	return n
}

func (d *desk) try(ctx context.Context, c ui.Command) error {
	put := func(path string, body any) error {
		_, err := d.b.call(ctx, http.MethodPut, path, body)
		return err
	}
	switch c.Kind {
	case ui.OpenPage:
		return d.b.open(ctx, c.Arg)
	case ui.SetRollout:
		return put("/hf/v1/rollout", map[string]string{"mode": c.Arg})
	case ui.SetBypass:
		return put("/hf/v1/bypass", map[string]bool{"on": c.Arg == "on"})
	case ui.SetKV:
		return put("/hf/v1/config", map[string]string{"kv.disk.mode": c.Arg})
	case ui.PruneKV:
		_, err := d.b.call(ctx, http.MethodPost, "/hf/v1/kv/prune", map[string]any{})
		return err
	case ui.CopyLine:
		return d.copyLine(ctx, c.Arg)
	case ui.SetAtLogin:
		return setAtLogin(d.getenv, c.Arg == "on")
	case ui.Doctor:
		return d.doctor(ctx)
	case ui.Quit:
		_, err := d.b.call(ctx, http.MethodPost, "/hf/v1/quit", nil)
		return err
	}
	return nil
}

// copyLine puts the setup line of an agent on the clipboard and says where it
// goes.
func (d *desk) copyLine(ctx context.Context, id string) error {
	var list struct {
		Clients []struct{ ID, Name, Line, Into string }
	}
	if err := d.b.get(ctx, "/hf/v1/clients", &list); err != nil {
		return err
	}
	for _, c := range list.Clients {
		if c.ID != id {
			continue
		}
		if err := ui.Copy(c.Line); err != nil {
			return &Fault{Code: exitFailed, What: "the clipboard cannot be reached: " + err.Error(), Hint: "the line for " + c.Name + " is in Settings too"}
		}
		d.notify(ui.Notice{Title: "Copied the line for " + c.Name, Body: "Paste it into " + c.Into + "."})
	}
	return nil
}

// doctor writes the findings as a page and opens it. It is a file and not a
// page of the inspector, because it also has to show what is wrong with that.
func (d *desk) doctor(ctx context.Context) error {
	doc := &doctor{cli: &cli{stdio: stdio{getenv: d.getenv}}, paths: d.b.paths}
	checks := doc.examine(ctx)
	if doc.backend != nil {
		if err := doc.backend.close(); err != nil {
			return err
		}
	}
	var text strings.Builder
	if err := findings().Execute(&text, struct {
		Checks []Check
		At     string
	}{checks, time.Now().Format(time.DateTime)}); err != nil {
		return err
	}
	file := filepath.Join(doorFolder(d.b.paths), "holdfast-doctor.html")
	if err := writeFile(file, []byte(text.String())); err != nil {
		return err
	}
	return openFile(ctx, file)
}

// findings is the page of doctor.
func findings() *template.Template {
	return template.Must(template.New("doctor").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>Holdfast: setup</title>
<style>
:root{--bg:#fbfcfc;--fg:#16242b;--soft:#5a6a72;--line:#dbe3e5;--ok:#0f7a70;--warn:#a85200;--fail:#b3261e}
@media (prefers-color-scheme:dark){:root{--bg:#10181c;--fg:#e8eef0;--soft:#9dadb5;--line:#27343a;--ok:#3fd6c0;--warn:#ffb020;--fail:#ff8a80}}
body{margin:0 auto;max-width:52rem;padding:2rem 1.25rem;background:var(--bg);color:var(--fg);font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.35rem;margin:0}p{margin:.2rem 0 1.4rem;color:var(--soft)}
li{display:grid;grid-template-columns:4.2rem 6rem 1fr;gap:.2rem 1rem;padding:.65rem 0;border-top:1px solid var(--line)}
ul{list-style:none;margin:0;padding:0}b{font-weight:600}.ok{color:var(--ok)}.warn{color:var(--warn)}.fail{color:var(--fail)}
i{font-style:normal;color:var(--soft);grid-column:3}span{overflow-wrap:anywhere}
@media (max-width:34rem){li{grid-template-columns:1fr}i{grid-column:1}}
</style>
<main><h1>Setup of Holdfast</h1><p>Looked at {{.At}}. Nothing was sent anywhere.</p>
<ul>{{range .Checks}}<li><b class="{{.State}}">{{.State}}</b><b>{{.Name}}</b><span>{{.What}}</span>{{with .Hint}}<i>{{.}}</i>{{end}}</li>
{{end}}</ul></main></html>
`))
}
