package anthropic

import (
	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

// Reply starts reading a response.
func (Codec) Reply(stream bool) wire.Reply {
	if stream {
		return sse.NewEventReader(readEvent)
	}
	return sse.NewJSONReader(readBody)
}

// readEvent looks at the few events that say something about the whole reply.
// An event without a name tells its type in the data alone.
func readEvent(info *wire.ReplyInfo, ev sse.Event) {
	switch ev.Name {
	case "content_block_start", "content_block_delta", "content_block_stop", "ping":
		return
	case "error":
		readError(info, wire.ValueOf(ev.Data).Obj())
		return
	}
	o := wire.ValueOf(ev.Data).Obj()
	switch o.Get("type").Str() {
	case "message_start":
		readMessage(info, o.Get("message").Obj())
	case "message_delta":
		readStop(info, o.Get("delta").Obj())
		readUsage(info, o.Get("usage"))
	case "message_stop":
		info.Terminal = true
	case "error":
		readError(info, o)
	}
}

func readBody(info *wire.ReplyInfo, o wire.Object) {
	if o.Get("type").Str() == "error" {
		readError(info, o)
		return
	}
	readMessage(info, o)
	readStop(info, o)
}

func readMessage(info *wire.ReplyInfo, message wire.Object) {
	info.Model = message.Get("model").Str()
	info.ResponseID = message.Get("id").Str()
	readUsage(info, message.Get("usage"))
}

func readStop(info *wire.ReplyInfo, o wire.Object) {
	if reason := o.Get("stop_reason").Str(); reason != "" {
		info.StopReason = reason
		info.Terminal = true
	}
}

func readError(info *wire.ReplyInfo, o wire.Object) {
	info.Err = "error"
	if kind := o.Get("error").Obj().Get("type").Str(); kind != "" {
		info.Err = kind
	}
	info.Terminal = true
}

// readUsage takes cumulative counts: the last value of each class holds, but a
// zero never takes back input that was reported before.
func readUsage(info *wire.ReplyInfo, v wire.Value) {
	if !v.Is('{') {
		return
	}
	usage, counts := v.Obj(), &info.Counts
	counts.Seen = true
	later(&counts.Input, usage.Get("input_tokens"))
	later(&counts.Cached, usage.Get("cache_read_input_tokens"))
	later(&counts.CacheWrite, usage.Get("cache_creation_input_tokens"))
	if output := usage.Get("output_tokens"); !output.Absent() {
		counts.Output = output.Count()
	}
}

func later(count *int64, v wire.Value) {
	if n := v.Count(); n > 0 {
		*count = n
	}
}
