package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"holdfast/core/session"
)

// File is something to download.
type File struct {
	Name, Type string
	Data       []byte
}

// File makes one download of a turn: a side by itself, or all of it as JSON
// lines or HAR.
func (p *Pages) File(r *http.Request) (File, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return File{}, session.ErrUnknown
	}
	ctx, file := r.Context(), r.PathValue("file")
	switch file {
	case "inbound.json", "outbound.json", "response.txt":
		part := map[string]string{"inbound.json": "inbound", "outbound.json": "outbound", "response.txt": "response"}[file]
		raw, _, err := p.Source.Plain(ctx, id, part)
		return File{fmt.Sprintf("turn-%d-%s", id, file), "application/octet-stream", raw}, err
	case "turn.jsonl":
		raw, err := p.lines(ctx, id)
		return File{fmt.Sprintf("turn-%d.jsonl", id), "application/jsonl", raw}, err
	case "turn.har":
		raw, err := p.har(ctx, id)
		return File{fmt.Sprintf("turn-%d.har", id), "application/json", raw}, err
	}
	return File{}, session.ErrUnknown
}

// whole is a turn with its three sides; one that is not kept is "".
func (p *Pages) sides(ctx context.Context, id int64) (t session.TurnView, sides map[string]string, err error) {
	if t, err = p.Source.TurnView(ctx, id); err != nil {
		return t, nil, err
	}
	sides = map[string]string{}
	for _, part := range []string{"inbound", "outbound", "response"} {
		raw, _, err := p.Source.Plain(ctx, id, part)
		if err != nil && !errors.Is(err, session.ErrNotKept) && !errors.Is(err, session.ErrUnknown) {
			return t, nil, err
		}
		sides[part] = string(raw)
	}
	return t, sides, nil
}

// lines is a turn as JSON lines: the turn, then each side.
func (p *Pages) lines(ctx context.Context, id int64) ([]byte, error) {
	t, sides, err := p.sides(ctx, id)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(map[string]any{"turn": t})
	for _, part := range []string{"inbound", "outbound", "response"} {
		if err != nil {
			return nil, err
		}
		var line []byte
		line, err = json.Marshal(map[string]any{"part": part, "body": sides[part]})
		out = append(append(out, '\n'), line...)
	}
	return append(out, '\n'), err
}

// har is a turn as an HTTP archive 1.2 of one exchange. Headers are not stored,
// keys least of all, so there are none but the content type.
func (p *Pages) har(ctx context.Context, id int64) ([]byte, error) {
	t, sides, err := p.sides(ctx, id)
	if err != nil {
		return nil, err
	}
	type object = map[string]any
	path, _ := endpoint(t)
	none := []object{}
	entry := object{
		"startedDateTime": time.UnixMilli(t.At).UTC().Format(time.RFC3339Nano),
		"time":            whole(t.Ms),
		"request": object{"method": http.MethodPost, "url": "https://" + t.Route + ".upstream" + path, "httpVersion": "HTTP/1.1", "cookies": none,
			"headers": []object{{"name": "content-type", "value": "application/json"}}, "queryString": none, "headersSize": -1, "bodySize": t.Bytes.Out,
			"postData": object{"mimeType": "application/json", "text": sides["outbound"]}},
		"response": object{"status": t.Status, "statusText": http.StatusText(t.Status), "httpVersion": "HTTP/1.1", "cookies": none, "headers": none,
			"content": object{"size": len(sides["response"]), "mimeType": "text/plain", "text": sides["response"]}, "redirectURL": "", "headersSize": -1, "bodySize": -1},
		"cache":   object{},
		"timings": object{"send": own(t.Ms), "wait": t.Ms.UpstreamFirst, "receive": t.Ms.Stream},
		"comment": fmt.Sprintf("turn %d, path %s; the host is the route's name, keys are never stored", t.ID, t.Path),
	}
	return json.MarshalIndent(object{"log": object{"version": "1.2", "creator": object{"name": "Holdfast", "version": "1"}, "entries": []object{entry}}}, "", "  ")
}
