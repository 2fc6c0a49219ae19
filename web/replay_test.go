package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"holdfast/core/config"
	"holdfast/core/guard"
)

// A turn goes out again as it went, with the key of the environment, which is
// shown nowhere; a route without one is refused before anything is sent.
func TestReplay(t *testing.T) {
	h := newHouse(t)
	asked := ""
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("X-Api-Key") + " " + string(body)
		io.WriteString(w, `{"reply":"<b>"}`)
	}))
	defer model.Close()
	t.Setenv("HOUSE_KEY", "sk-secret")
	h.knobs.c.Routes = map[string]config.Route{"with": {URL: model.URL, KeyEnv: "HOUSE_KEY"}, "without": {URL: model.URL}}
	send := func(route string) (int, string) {
		res := h.ask("POST", "/ui/turns/"+strconv.FormatInt(h.turn, 10)+"/replay", url.Values{"route": {route}, guard.FormField: {h.guard.FormToken()}})
		return res.StatusCode, text(t, res)
	}
	if status, body := send("without"); status != 422 || asked != "" || !strings.Contains(body, "key_env") {
		t.Errorf("without a key: %d, the model was asked %q", status, asked)
	}
	status, body := send("with")
	if status != 200 || asked != "POST /v1/messages sk-secret "+shelfBody {
		t.Errorf("%d, the model was asked %q", status, asked)
	}
	if strings.Contains(body, "sk-secret") || !strings.Contains(body, "&lt;b&gt;") {
		t.Error(body)
	}
}
