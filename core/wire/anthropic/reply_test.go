package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/core/wire"
	"holdfast/core/wire/sse"
	"holdfast/core/wire/wiretest"
)

const started = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":25,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"stop_reason"}}

`

const stopped = `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"input_tokens":0,"output_tokens":89}}

`

const ended = `event: message_stop
data: {"type":"message_stop"}

`

func TestReplyStream(t *testing.T) {
	counts := wire.Counts{Input: 25, CacheWrite: 300, Cached: 4000, Output: 1, Seen: true}
	open := wire.ReplyInfo{Model: "claude-x", ResponseID: "msg_1", Counts: counts}
	done := open
	done.StopReason, done.Terminal, done.Counts.Output = "tool_use", true, 89
	failed := open
	failed.Err, failed.Terminal = "overloaded_error", true
	later := done
	later.Counts.Input = 30
	noStop := open
	noStop.Terminal = true
	for name, c := range map[string]struct {
		body string
		want wire.ReplyInfo
	}{
		"nothing":               {"", wire.ReplyInfo{}},
		"started":               {started, open},
		"stop reason":           {started + stopped, done},
		"whole":                 {started + stopped + ended, done},
		"stop without reason":   {started + ended, noStop},
		"no last blank line":    {started + strings.TrimRight(stopped, "\n"), done},
		"cut in the last event": {started + stopped[:len(stopped)-10], open},
		"no event names":        {dropNames(started + stopped + ended), done},
		"carriage returns":      {strings.ReplaceAll(started+stopped, "\n", "\r\n"), done},
		"input again":           {started + strings.Replace(stopped, `"input_tokens":0`, `"input_tokens":30`, 1), later},
		"error event":           {started + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n", failed},
		"error without a type":  {"event: error\ndata: busy\n\n", wire.ReplyInfo{Err: "error", Terminal: true}},
		"not events":            {"<html>bad gateway</html>\n\n", wire.ReplyInfo{}},
		"events of odd types":   {"data: {\"type\":\"message_start\",\"message\":[]}\n\ndata: 1\n\ndata: {\"type\":7}\n\n", wire.ReplyInfo{}},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			if got := wiretest.Read(Codec{}, true, c.body, size); got != c.want {
				t.Errorf("%s, %d bytes at a time: %+v, want %+v", name, size, got, c.want)
			}
		}
	}
}

func dropNames(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "event:") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestReplyBody(t *testing.T) {
	body := `{"id":"msg_1","type":"message","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn",` +
		`"usage":{"input_tokens":3,"cache_read_input_tokens":5,"cache_creation_input_tokens":null,"output_tokens":7}}`
	whole := wire.ReplyInfo{Model: "m", ResponseID: "msg_1", StopReason: "end_turn", Terminal: true,
		Counts: wire.Counts{Input: 3, Cached: 5, Output: 7, Seen: true}}
	for name, c := range map[string]struct {
		body string
		want wire.ReplyInfo
	}{
		"whole":    {body, whole},
		"cut":      {body[:len(body)-1], wire.ReplyInfo{}},
		"error":    {`{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`, wire.ReplyInfo{Err: "rate_limit_error", Terminal: true}},
		"not JSON": {"<html>", wire.ReplyInfo{}},
		"no counts": {`{"id":"m","usage":{"input_tokens":9e18,"cache_read_input_tokens":-1,"cache_creation_input_tokens":1.5,"output_tokens":-5}}`,
			wire.ReplyInfo{ResponseID: "m", Terminal: true, Counts: wire.Counts{Seen: true}}},
		"too long": {`{"pad":"` + strings.Repeat("x", sse.MaxReply) + `",` + body[1:], wire.ReplyInfo{}},
	} {
		for _, size := range []int{11, 1 << 20} {
			if len(c.body) > 1<<20 && size < 1<<20 {
				continue
			}
			if got := wiretest.Read(Codec{}, false, c.body, size); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}
