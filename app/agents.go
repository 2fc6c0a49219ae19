package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"holdfast/core/client"
	"holdfast/core/guard"
	"holdfast/storage/durable"
	"holdfast/web/api"
)

// agents connects the agents of this machine: it edits their settings files and
// keeps what they held before, so that disconnecting gives the very bytes back.
type agents struct {
	paths  Paths
	getenv func(string) string
	base   func() string // our proxy's URL
}

// connection is what is kept of a connected file, under the data folder.
type connection struct {
	File    string      `json:"file"`
	Existed bool        `json:"existed"`
	Mode    os.FileMode `json:"mode"`
	Made    []string    `json:"made,omitempty"` // folders made for it, innermost first
	Before  []byte      `json:"before"`
	Wrote   []byte      `json:"wrote"`
}

func (a *agents) recordFile(id string) string {
	return filepath.Join(a.paths.Data, "clients", id+".json")
}

// find returns an agent that exists.
func (a *agents) find(id string) (client.Agent, error) {
	agent, ok := client.Find(id)
	if !ok {
		return agent, &guard.Problem{Status: 404, Code: "no_such_client", Title: "There is no agent named " + id + ".",
			Hint: "holdfast plugin list names them."}
	}
	return agent, nil
}

// List shows every agent of the table.
func (a *agents) List() (out []api.ClientView, err error) {
	for _, agent := range client.All() {
		v, err := a.view(agent)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func shell() client.Shell {
	if runtime.GOOS == "windows" {
		return client.PowerShell
	}
	return client.POSIX
}

func (a *agents) view(agent client.Agent) (api.ClientView, error) {
	v := api.ClientView{Setup: agent.Setup(a.base(), shell())}
	if agent.Program != "" {
		_, err := exec.LookPath(agent.Program)
		v.Installed = err == nil
	}
	c := agent.Config()
	if c == nil {
		return v, nil
	}
	var err error
	if v.File, err = a.file(c); err != nil {
		return v, err
	}
	text, err := readOptional(v.File)
	v.Connected = err == nil && c.Connected(text, a.base())
	return v, nil
}

// file is where an agent's settings are.
func (a *agents) file(c *client.Config) (string, error) {
	if c.FolderVar != "" {
		if dir := a.getenv(c.FolderVar); dir != "" {
			return filepath.Join(dir, c.File), nil
		}
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, filepath.FromSlash(c.Folder), c.File), err
}

// Connect leads an agent's base URL through us, from its next start on.
func (a *agents) Connect(id string) (api.ClientView, error) {
	agent, err := a.find(id)
	if err != nil {
		return api.ClientView{}, err
	}
	c := agent.Config()
	if c == nil {
		return api.ClientView{}, noConfig(agent)
	}
	v, err := a.view(agent)
	if err != nil || v.Connected {
		return v, err
	}
	if _, err := os.Stat(a.recordFile(id)); err == nil { // connected to an address of ours that has changed
		if _, err := a.Disconnect(id); err != nil {
			return v, err
		}
	}
	if err := a.connect(id, c, realPath(v.File)); err != nil {
		return v, err
	}
	v.Connected, v.Note = true, "Takes effect when "+agent.Name+" starts next."
	return v, nil
}

// connect keeps the file first and then changes it: whatever happens between,
// what there was before is known.
func (a *agents) connect(id string, c *client.Config, file string) error {
	k := connection{File: file, Mode: 0o600}
	info, err := os.Stat(file)
	if err == nil {
		k.Existed, k.Mode = true, info.Mode().Perm()
		k.Before, err = os.ReadFile(file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if k.Wrote, err = c.Connect(k.Before, a.base()); err != nil {
		return badFormat(file, err)
	}
	k.Made = missing(filepath.Dir(file))
	record, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(a.recordFile(id)), 0o700); err != nil {
		return err
	}
	if err := writeFile(a.recordFile(id), record); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(file, k.Wrote, k.Mode)
}

// missing lists the folders that would have to be made for dir, innermost
// first.
func missing(dir string) (out []string) {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return out
		}
		out = append(out, dir)
		dir = filepath.Dir(dir)
	}
}

// Disconnect gives an agent its settings back: the very bytes if nobody touched
// the file since, else the file without what we put in.
func (a *agents) Disconnect(id string) (api.ClientView, error) {
	agent, err := a.find(id)
	if err != nil {
		return api.ClientView{}, err
	}
	c := agent.Config()
	if c == nil {
		return api.ClientView{}, noConfig(agent)
	}
	record, err := os.ReadFile(a.recordFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		v, err := a.view(agent)
		v.Note = "Holdfast has not changed this file."
		return v, err
	}
	var k connection
	if err == nil {
		err = json.Unmarshal(record, &k)
	}
	if err != nil {
		return api.ClientView{}, err
	}
	note, err := k.undo(c)
	if err != nil {
		return api.ClientView{}, err
	}
	if err := os.Remove(a.recordFile(id)); err != nil {
		return api.ClientView{}, err
	}
	v, err := a.view(agent)
	v.Note = note
	return v, err
}

// undo puts the file back and says how.
func (k *connection) undo(c *client.Config) (note string, err error) {
	now, err := os.ReadFile(k.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "The file is gone; there was nothing to undo.", nil
	case err != nil:
		return "", err
	case sum(now) == sum(k.Wrote) && !k.Existed:
		err := os.Remove(k.File)
		for _, dir := range k.Made {
			os.Remove(dir) // a folder that got something else in it stays
		}
		return "The file did not exist before and is removed.", err
	case sum(now) == sum(k.Wrote):
		return "The file is as it was, to the byte.", durable.WriteFile(k.File, k.Before, k.Mode)
	}
	text, err := c.Disconnect(now, k.Before, k.Wrote)
	if err != nil {
		return "", badFormat(k.File, err)
	}
	return "The file was edited since; only the base URL was taken out.", durable.WriteFile(k.File, text, k.Mode)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func noConfig(agent client.Agent) error {
	hint := "Set " + agent.Name + "'s base URL in your own code."
	if agent.Program != "" {
		hint = "Start it with holdfast run " + agent.ID + "."
	}
	return &guard.Problem{Status: 409, Code: "no_config", Title: agent.Name + " keeps no base URL in its settings.", Hint: hint}
}

func badFormat(file string, err error) error {
	if !errors.Is(err, client.ErrFormat) {
		return err
	}
	return &guard.Problem{Status: 409, Code: "format", Title: "The settings in " + file + " cannot be edited safely: " + err.Error(),
		Hint: "Nothing was changed; put the setup line in yourself."}
}
