package local

import (
	"strconv"
	"strings"
	"time"

	"holdfast/core/engine"
	"holdfast/core/upstream"
	"holdfast/core/wire"
)

// dateArgument is the template argument that holds today's date. Templates that
// know it write the date at the front of every prompt, which at midnight breaks
// the prefix of every conversation, in the slots and on disk.
const dateArgument = "date_string"

// dateForm is how templates write the date themselves.
const dateForm = "02 Jan 2006"

// dated reports whether an engine's prompts hold a date that can be set.
func dated(p engine.Props) bool { return strings.Contains(p.Template, dateArgument) }

// pin gives a chat body the date on which its conversation began, where the
// client set none: the conversation's own, so that it is the same after a
// restart. A request of no conversation is left alone.
func pin(body []byte, call upstream.Call) []byte {
	o, err := wire.ValueOf(body).Object()
	if err != nil || call.Since.IsZero() {
		return body
	}
	date := []byte(strconv.Quote(call.Since.In(time.Local).Format(dateForm)))
	set := o.Get("chat_template_kwargs")
	if set.Absent() {
		return o.Set("chat_template_kwargs", []byte(`{"`+dateArgument+`":`+string(date)+`}`))
	}
	args, err := set.Object()
	if err != nil || args.Get(dateArgument).Len() > 0 {
		return body // the engine will say what is wrong with it, or it is the client's
	}
	return o.Set("chat_template_kwargs", args.Set(dateArgument, date))
}
