// Package assets holds what the program shows and does not compute: style and
// script of the inspector, its fonts, and the help pages. Everything is
// embedded, so that a page never loads anything from elsewhere.
//
// The files of js and font that come from npm are copied here by
// `go run ./build gen`, from the versions pinned in build/clients/web.
package assets

import (
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"

	"github.com/zeebo/blake3"
)

//go:embed css js font help
var files embed.FS

// Prefix is where the files are served; the segment after it names their
// content, so that browsers may keep them for ever.
const Prefix = "/ui/assets/"

// Set is the embedded files under the name of their content.
type Set struct {
	version string
	server  http.Handler
}

// Open names the content. It reads every file once, which is 300 KB.
func Open() *Set {
	sum := blake3.New()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		sum.WriteString(name)
		sum.Write(data)
		return err
	})
	if err != nil {
		panic("assets: internal error: an embedded file does not read: " + err.Error())
	}
	s := &Set{version: hex.EncodeToString(sum.Sum(nil)[:6])}
	s.server = http.StripPrefix(Prefix+s.version+"/", http.FileServerFS(files))
	return s
}

// URL is the address of one file.
func (s *Set) URL(name string) string { return Prefix + s.version + "/" + name }

// ServeHTTP serves style, script and fonts; folders are not listed and help
// pages have routes of their own.
func (s *Set) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, current := strings.CutPrefix(r.URL.Path, Prefix+s.version+"/")
	top, _, inside := strings.Cut(name, "/")
	if !current || !inside || strings.HasSuffix(name, "/") || top == "help" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	s.server.ServeHTTP(w, r)
}

// Help returns one help page as Markdown.
func Help(name string) ([]byte, error) { return files.ReadFile("help/" + name + ".md") }
