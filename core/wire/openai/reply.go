package openai

import (
	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

// Reply starts reading a response.
func (Codec) Reply(stream bool) wire.Reply {
	if stream {
		return sse.NewEventReader(readEvent)
	}
	return sse.NewJSONReader(readChunk)
}

const done = "[DONE]"

func readEvent(info *wire.ReplyInfo, ev sse.Event) {
	if string(ev.Data) == done {
		info.Terminal = true
		return
	}
	readChunk(info, wire.ValueOf(ev.Data).Obj())
	if ev.Name == "error" && info.Err == "" {
		info.Err, info.Terminal = "error", true
	}
}

// readChunk reads a chunk of a stream or a whole reply. A finish reason is
// terminal: whether a usage chunk was asked for the reader cannot know. One
// that comes later still counts.
func readChunk(info *wire.ReplyInfo, o wire.Object) {
	if e := o.Get("error"); !e.Absent() {
		info.Err = errorType(e)
		info.Terminal = true
		return
	}
	if model := o.Get("model").Str(); model != "" {
		info.Model = model
	}
	if id := o.Get("id").Str(); id != "" {
		info.ResponseID = id
	}
	choices, _ := o.Get("choices").List()
	for _, v := range choices {
		if reason := v.Obj().Get("finish_reason").Str(); reason != "" {
			info.StopReason = reason
			info.Terminal = true
		}
	}
	readUsage(info, o.Get("usage"))
}

// errorType is the error's type, or its code where a server gives only that.
func errorType(v wire.Value) string {
	e := v.Obj()
	if kind := e.Get("type").Str(); kind != "" {
		return kind
	}
	code := e.Get("code")
	if text := code.Str(); text != "" {
		return text
	}
	if !code.Absent() {
		return string(code.Bytes())
	}
	return "error"
}

// readUsage takes the cached tokens out of the prompt's total.
func readUsage(info *wire.ReplyInfo, v wire.Value) {
	if !v.Is('{') {
		return
	}
	usage := v.Obj()
	cached := usage.Get("prompt_tokens_details").Obj().Get("cached_tokens").Count()
	info.Counts = wire.Counts{
		Input:  max(usage.Get("prompt_tokens").Count()-cached, 0),
		Cached: cached,
		Output: usage.Get("completion_tokens").Count(),
		Seen:   true,
	}
}
