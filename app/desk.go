package main

import (
	"holdfast/core/guard"
	"holdfast/web/api"
)

// desk is what the API offers the desktop of this process.
func (a *App) desk(g *guard.Inspector, o AppOptions) *api.Desk {
	return &api.Desk{
		NewCode: func() string { a.doors.given(); return g.NewCode() }, Quit: a.Quit,
		Activate: func() bool {
			forward := a.activate.Load()
			if forward != nil {
				(*forward)()
			}
			return forward != nil
		},
		Clients: &agents{paths: o.Paths, getenv: o.Env, base: a.BaseURL},
	}
}

// Quit ends Run, which drains; it does not wait.
func (a *App) Quit() { a.quitOnce.Do(func() { close(a.quit) }) }
