// Package help is the help pages, written in Markdown in assets/help: the same
// texts the README links to.
package help

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

	"holdfast/core/session"
	"holdfast/web/layout"
)

// Pages makes these pages. Read returns one text.
type Pages struct {
	Read func(name string) ([]byte, error)
}

// topic is one help page.
type topic struct{ name, title string }

// topics lists the pages in the order they are read.
func topics() []topic {
	return []topic{
		{"index", "How it works"}, {"connect", "Connect an agent"}, {"map", "Read the coverage map"}, {"folding", "Folding"},
		{"gates", "Gates and degrades"}, {"kv", "The disk KV cache"}, {"privacy", "What is stored, and where"}, {"trouble", "When something is wrong"},
	}
}

// Help is one page; without a name it is the first.
func (p *Pages) Help(r *http.Request) (layout.Page, error) {
	name := layout.Or(r.PathValue("name"), "index")
	for _, t := range topics() {
		if t.name == name {
			return p.page(t)
		}
	}
	return layout.Page{}, session.ErrUnknown
}

func (p *Pages) page(t topic) (layout.Page, error) {
	text, err := p.Read(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return layout.Page{}, session.ErrUnknown
	}
	if err != nil {
		return layout.Page{}, err
	}
	html, err := render(text)
	return layout.Page{Title: t.title, Section: "help", Body: page(t.name, html)}, err
}

// render turns Markdown into HTML. Raw HTML in it is left out, and links to
// other texts lead to their pages.
func render(text []byte) (string, error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	var out bytes.Buffer
	if err := md.Convert(text, &out); err != nil {
		return "", err
	}
	html := out.String()
	for _, t := range topics() {
		html = strings.ReplaceAll(html, `href="`+t.name+`.md`, `href="`+address(t.name))
	}
	for n := 1; strings.Contains(html, "<table>"); n++ {
		html = strings.Replace(html, "<table>", fmt.Sprintf(`<div class="table-wrap" tabindex="0" role="region" aria-label="Table %d"><table class="plain-table">`, n), 1)
	}
	return strings.NewReplacer("</table>", "</table></div>", "<pre>", `<pre class="bytes plain" tabindex="0">`).Replace(html), nil
}

func address(name string) string {
	if name == "index" {
		return "/ui/help"
	}
	return "/ui/help/" + name
}
