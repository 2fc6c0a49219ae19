package openai

import (
	"strings"
	"testing"

	"holdfast/core/wire"
	"holdfast/core/wire/wiretest"
)

const (
	talking = `data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}],"usage":null}` + "\n\n"
	stopped = `data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	usage   = `data: {"id":"chatcmpl-1","model":"m","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}` + "\n\n"
	ended   = "data: [DONE]\n\n"
)

func TestReplyStream(t *testing.T) {
	open := wire.ReplyInfo{Model: "m", ResponseID: "chatcmpl-1"}
	finished := open
	finished.StopReason, finished.Terminal = "tool_calls", true
	counted := finished
	counted.Counts = wire.Counts{Input: 40, Cached: 60, Output: 7, Seen: true}
	only := open
	only.Terminal = true
	failed := open
	failed.Err, failed.Terminal = "server_error", true
	coded := failed
	coded.Err = "502"
	absurd := open
	absurd.Counts.Seen = true
	for name, c := range map[string]struct {
		body string
		want wire.ReplyInfo
	}{
		"nothing":            {"", wire.ReplyInfo{}},
		"talking":            {talking, open},
		"finish reason":      {talking + stopped, finished},
		"usage after finish": {talking + stopped + usage, counted},
		"whole":              {talking + stopped + usage + ended, counted},
		"done alone":         {talking + ended, only},
		"done, unended":      {talking + "data: [DONE]", only},
		"usage, unended":     {talking + stopped + strings.TrimRight(usage, "\n"), counted},
		"usage, cut":         {talking + stopped + usage[:len(usage)-9], finished},
		"comments":           {": OPENROUTER PROCESSING\n\n" + talking, open},
		"error chunk":        {talking + `data: {"error":{"message":"m","type":"server_error","code":null}}` + "\n\n", failed},
		"error by number":    {talking + `data: {"error":{"message":"m","code":502}}` + "\n\n", coded},
		"error event":        {"event: error\ndata: busy\n\n", wire.ReplyInfo{Err: "error", Terminal: true}},
		"error as text":      {"data: {\"error\":\"out of memory\"}\n\n", wire.ReplyInfo{Err: "error", Terminal: true}},
		"no counts":          {talking + `data: {"usage":{"prompt_tokens":9e18,"completion_tokens":-5,"prompt_tokens_details":{"cached_tokens":1e400}}}` + "\n\n", absurd},
		"odd types":          {"data: {\"choices\":{},\"usage\":[],\"model\":1}\n\ndata: 7\n\n", wire.ReplyInfo{}},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			if got := wiretest.Read(Codec{}, true, c.body, size); got != c.want {
				t.Errorf("%s, %d bytes at a time: %+v, want %+v", name, size, got, c.want)
			}
		}
	}
}

func TestReplyBody(t *testing.T) {
	body := `{"id":"chatcmpl-1","model":"m","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":null}}`
	whole := wire.ReplyInfo{Model: "m", ResponseID: "chatcmpl-1", StopReason: "stop", Terminal: true,
		Counts: wire.Counts{Input: 10, Output: 2, Seen: true}}
	for name, c := range map[string]struct {
		body string
		want wire.ReplyInfo
	}{
		"whole":  {body, whole},
		"pretty": {"\n " + body + "\n", whole},
		"cut":    {body[:len(body)-1], wire.ReplyInfo{}},
		"error":  {`{"error":{"message":"m","type":null,"code":"invalid_api_key"}}`, wire.ReplyInfo{Err: "invalid_api_key", Terminal: true}},
		"more cached than prompt": {`{"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":5}}}`,
			wire.ReplyInfo{Terminal: true, Counts: wire.Counts{Cached: 5, Seen: true}}},
	} {
		for _, size := range []int{1, 1 << 20} {
			if got := wiretest.Read(Codec{}, false, c.body, size); got != c.want {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}
