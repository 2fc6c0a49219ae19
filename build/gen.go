package main

import (
	"os"
	"path/filepath"
)

// templ makes the Go of every page. It runs as a tool of its own: in go.mod its
// dependencies would be the program's. The runtime in go.mod has the same version.
const templ = "github.com/a-h/templ/cmd/templ@v0.3.1118"

// vendored are the files of npm packages that become assets, by where they go.
// What is copied is what the lock file of build/clients/web pins.
func vendored() map[string]string {
	const fonts = "@fontsource-variable/"
	return map[string]string{
		"js/htmx.min.js":              "htmx.org/dist/htmx.min.js",
		"js/hx-sse.min.js":            "htmx.org/dist/ext/hx-sse.min.js",
		"js/htmx.LICENSE":             "htmx.org/LICENSE",
		"font/inter.woff2":            fonts + "inter/files/inter-latin-wght-normal.woff2",
		"font/inter.LICENSE":          fonts + "inter/LICENSE",
		"font/jetbrains-mono.woff2":   fonts + "jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2",
		"font/jetbrains-mono.LICENSE": fonts + "jetbrains-mono/LICENSE",
	}
}

// gen makes every generated file anew: pages, vendored assets, and what the
// directives in the code ask for.
func gen(r *runner, _ []string) error {
	return r.all([]job{
		{"install npm", r.needNpm},
		{"install web", func() error { return r.npm("web") }},
		{"vendor assets", r.vendor},
		{"templ generate", func() error { return r.goCmd(noCgo(), "run", templ, "generate", "-path", "web") }},
		{"go generate", func() error { return r.goCmd(noCgo(), "generate", "-tags", tags, "./...") }},
	})
}

// browser are the tests of the pages in Debian's Chromium, with what they need.
func (r *runner) browser() []job {
	return []job{
		{"install chromium", func() error { return r.needProgram("chromium", "chromium", "fonts-dejavu-core") }},
		{"install web", func() error { return r.npm("web") }},
		{"pages in a browser", func() error {
			return r.goCmd(noCgo(), "test", "-count=1", "-v", "-timeout", "20m", "-tags", tags+",browser", "-run", "^TestBrowser$", "./app")
		}},
	}
}

func (r *runner) vendor() error {
	for to, from := range vendored() {
		data, err := os.ReadFile(filepath.Join(r.cache, "clients", "web", "node_modules", filepath.FromSlash(from)))
		if err != nil {
			return err
		}
		to = filepath.Join(r.root, "assets", filepath.FromSlash(to))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
