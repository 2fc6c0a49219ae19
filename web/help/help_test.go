package help

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/assets"
)

// Every topic has its text, every text its topic, and every link between them
// leads somewhere, in the repository and in the app.
func TestTopics(t *testing.T) {
	files, err := filepath.Glob("../../assets/help/*.md")
	if err != nil || len(files) != len(topics()) {
		t.Fatalf("%d texts for %d topics: %v", len(files), len(topics()), err)
	}
	p := &Pages{Read: assets.Help}
	for _, tp := range topics() {
		r := httptest.NewRequest(http.MethodGet, address(tp.name), nil)
		r.SetPathValue("name", tp.name)
		page, err := p.Help(r)
		if err != nil {
			t.Errorf("%s: %v", tp.name, err)
			continue
		}
		var html strings.Builder
		if err := page.Body.Render(t.Context(), &html); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(html.String(), "<h1") || strings.Contains(html.String(), `.md"`) {
			t.Errorf("%s is drawn as\n%s", tp.name, html.String())
		}
	}
}

func TestReadmeLinks(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\]\((assets/[^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
			t.Errorf("README links to %s: %v", m[1], err)
		}
	}
}

// Raw HTML in a text is not passed on.
func TestRenderIsSafe(t *testing.T) {
	html, err := render([]byte("# A\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1)) [map](map.md#lanes)\n\n| a |\n|---|\n| b |\n"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(html, "<script") || strings.Contains(html, "javascript:") || !strings.Contains(html, `href="/ui/help/map#lanes"`) || !strings.Contains(html, `aria-label="Table 1"`) {
		t.Error(html)
	}
}
