package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"holdfast/core/wire"
	"holdfast/core/wire/anthropic"
	"holdfast/core/wire/openai"
	"holdfast/core/wire/sse"
	"holdfast/core/wire/wiretest"
)

// The replies of these tests, one event each, as providers send them.
const (
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":400,\"output_tokens\":1}}}\n\n"
	textStart    = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	textDelta    = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi.\"}}\n\n"
	blockStop    = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	messageEnd   = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	ping         = "event: ping\ndata: {\"type\": \"ping\"}\n\n"

	chunkHead  = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`
	chunkUsage = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":425,\"completion_tokens\":7,\"total_tokens\":432,\"prompt_tokens_details\":{\"cached_tokens\":400}}}\n\n"
	chunkDone  = "data: [DONE]\n\n"
)

func chunk(delta, finish string) string {
	return chunkHead + delta + `,"finish_reason":` + finish + "}]}\n\n"
}

// ownCall is a round in which the model calls a tool of ours, by wire.
func ownCall(codec wire.Looper) string {
	if _, chat := codec.(openai.Codec); chat {
		return chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"o1","type":"function","function":{"name":"hf_","arguments":""}}]}`, "null") +
			chunk(`{"tool_calls":[{"index":0,"function":{"name":"status","arguments":"{}"}}]}`, "null") +
			chunk(`{}`, `"tool_calls"`) + chunkUsage + chunkDone
	}
	return messageStart + "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"o1\",\"name\":\"hf_status\",\"input\":{}}}\n\n" +
		blockStop + strings.Replace(messageEnd, "end_turn", "tool_use", 1)
}

// spoken is a round with one text, by wire, in the events it comes in.
func spoken(codec wire.Looper) []string {
	if _, chat := codec.(openai.Codec); chat {
		return []string{chunk(`{"role":"assistant","content":""}`, "null"), chunk(`{"content":"Hi."}`, "null"), chunk(`{}`, `"stop"`), chunkUsage, chunkDone}
	}
	return []string{messageStart, textStart, textDelta, blockStop, messageEnd}
}

func loopers() []wire.Looper { return []wire.Looper{anthropic.Codec{}, openai.Codec{}} }

func listen(codec wire.Looper) wire.Loop {
	return codec.Loop(true, wire.LoopOptions{Own: wiretest.OwnTools()})
}

// fed is all the client gets of a reply in one round.
func fed(codec wire.Looper, events ...string) (string, wire.Round) {
	l := listen(codec)
	var out bytes.Buffer
	for _, e := range events {
		out.Write(l.Feed([]byte(e)))
	}
	rest, round := l.Close()
	out.Write(rest)
	return out.String(), round
}

// In every round, private ones before it or not, a delta leaves when it comes,
// inside the framing of the first round.
func TestP1_C4_DeltasLeaveAtOnce(t *testing.T) {
	for _, codec := range loopers() {
		l := listen(codec)
		first := string(l.Feed([]byte(ownCall(codec))))
		held, _ := l.Close()
		first += string(held)
		l.Next()
		for _, e := range spoken(codec) {
			out := string(l.Feed([]byte(e)))
			if strings.Contains(e, "Hi.") && !strings.Contains(out, "Hi.") {
				t.Errorf("%T: %q is held back: %q", codec, e, out)
			}
			first += out
		}
		end, _ := l.Close()
		first += string(end)
		if strings.Count(first, `"message_start"`) > 2 || strings.Count(first, "event: message_start") > 1 || strings.Contains(first, "o1") {
			t.Errorf("%T: the client reads %s", codec, first)
		}
	}
}

// A name that comes in pieces decides nothing before it is whole.
func TestP2_C18_SplitNames(t *testing.T) {
	theirs := strings.NewReplacer(`"hf_"`, `"ba"`, `"status"`, `"sh"`).Replace(ownCall(openai.Codec{}))
	out, round := fed(openai.Codec{}, strings.SplitAfter(theirs, "\n\n")...)
	if round.Client != 1 || len(round.Own) != 0 || out != theirs {
		t.Errorf("%d calls of the client's; it reads %s", round.Client, out)
	}
	out, round = fed(openai.Codec{}, strings.SplitAfter(ownCall(openai.Codec{}), "\n\n")...)
	if len(round.Own) != 1 || round.Own[0].Name != "hf_status" || strings.Contains(out, "hf_") {
		t.Errorf("%+v; the client reads %s", round.Own, out)
	}
}

// The last chunk of a chat stream keeps its whole usage object.
func TestP3_UsageIsWhole(t *testing.T) {
	out, round := fed(openai.Codec{}, spoken(openai.Codec{})...)
	if !strings.Contains(out, `"total_tokens":432`) || round.Info.Counts.Cached != 400 {
		t.Errorf("%+v of %s", round.Info.Counts, out)
	}
}

// Cached tokens are counted once on every wire, the last report wins, and what
// was never reported is told apart from zero.
func TestP16_P57_P66_P81_UsageIsCountedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		codec wire.Codec
		body  string
		want  wire.Counts
	}{
		"P16 anthropic adds":      {anthropic.Codec{}, messageStart + messageEnd, wire.Counts{Input: 25, Cached: 400, Output: 7, Seen: true}},
		"P16 chat includes":       {openai.Codec{}, chunkUsage + chunkDone, wire.Counts{Input: 25, Cached: 400, Output: 7, Seen: true}},
		"P57 nothing is reported": {openai.Codec{}, chunk(`{"content":"x"}`, `"stop"`) + chunkDone, wire.Counts{}},
		"P81 the last one wins":   {openai.Codec{}, strings.Replace(chunkUsage, ":7", ":3", 1) + chunkUsage + chunkDone, wire.Counts{Input: 25, Cached: 400, Output: 7, Seen: true}},
		"P66 classes stay apart":  {anthropic.Codec{}, strings.Replace(messageStart, `"input_tokens":25`, `"input_tokens":25,"cache_creation_input_tokens":300`, 1) + messageEnd, wire.Counts{Input: 25, Cached: 400, CacheWrite: 300, Output: 7, Seen: true}},
	} {
		if got := wiretest.Read(c.codec, true, c.body, 13).Counts; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A reply without calls of ours is the provider's own bytes: nothing is made up
// in its place, no empty delta is added, unknown events and deltas pass.
func TestP36_P37_P39_P71_P77_RepliesPass(t *testing.T) {
	with := func(extra string) []string {
		return []string{messageStart, extra, textStart, textDelta, blockStop, messageEnd}
	}
	for name, events := range map[string][]string{
		"P36 a good reply":          spoken(anthropic.Codec{}),
		"P36 an error in mid-reply": {messageStart, textStart, textDelta, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n"},
		"P39 an unknown delta":      {messageStart, textStart, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"citations_delta\",\"citation\":{\"x\":1.0}}}\n\n", textDelta, blockStop, messageEnd},
		"P39 an unknown event":      with("event: from_the_future\ndata: {\"type\":\"from_the_future\",\"x\":1.0}\n\n"),
		"P71 redacted thinking":     with("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"c2ln\\/+=\"}}\n\n" + blockStop),
		"P77 pings":                 with(ping + ping),
		"P37 line ends":             with(strings.ReplaceAll(ping, "\n", "\r\n")),
	} {
		whole := strings.Join(events, "")
		for size := 1; size < 40; size += 7 {
			l := listen(anthropic.Codec{})
			var out bytes.Buffer
			for rest := whole; rest != ""; rest = rest[min(size, len(rest)):] {
				out.Write(l.Feed([]byte(rest[:min(size, len(rest))])))
			}
			end, _ := l.Close()
			out.Write(end)
			if out.String() != whole {
				t.Fatalf("%s, by %d bytes: the client reads\n%s\nwant\n%s", name, size, out.String(), whole)
			}
		}
	}
	if p := listen(anthropic.Codec{}).Ping(); !strings.Contains(string(p), "ping") {
		t.Errorf("while we hold back, the client gets %q", p)
	}
}

// Streams are read byte by byte: all three line ends, characters cut in two, and
// no more than one event is held.
func TestP38_P83_LineEndsAndPieces(t *testing.T) {
	const text = "event: a\ndata: {\"x\":\"caf\u00e9 😀\"}\n\ndata: 2\n\n"
	for _, end := range []string{"\n", "\r\n", "\r"} {
		body := strings.ReplaceAll(text, "\n", end)
		for size := 1; size < len(body); size++ {
			var got []string
			s := sse.New(func(ev sse.Event) { got = append(got, ev.Name+"|"+string(ev.Data)) })
			for rest := body; rest != ""; rest = rest[min(size, len(rest)):] {
				s.Write([]byte(rest[:min(size, len(rest))]))
			}
			if len(got) == 1 && end == "\r" { // the last end may be the first half of another
				s.Write([]byte("\r"))
			}
			if len(got) != 2 || got[0] != "a|{\"x\":\"caf\u00e9 😀\"}" || got[1] != "|2" {
				t.Fatalf("%q by %d bytes: %q", end, size, got)
			}
		}
	}
}

// A call without an id stays without one: none is made up.
func TestP41_NoIDIsInvented(t *testing.T) {
	bare := chunk(`{"role":"assistant","tool_calls":[{"index":0,"type":"function","function":{"name":"bash","arguments":"{}"}}]}`, "null")
	events := []string{bare, chunk(`{}`, `"tool_calls"`), chunkUsage, chunkDone}
	if out, _ := fed(openai.Codec{}, events...); out != strings.Join(events, "") {
		t.Errorf("the client reads %s", out)
	}
}

// Reasoning comes back whole from a round, streamed or not.
func TestP53_SignaturesOnBothPaths(t *testing.T) {
	body := `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"c2ln/+="},{"type":"tool_use","id":"o1","name":"hf_status","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`
	stream := messageStart +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"c2ln/+=\"}}\n\n" + blockStop +
		strings.ReplaceAll(ownCall(anthropic.Codec{})[len(messageStart):], `"index":0`, `"index":1`)
	for streamed, reply := range map[bool]string{false: body, true: stream} {
		l := anthropic.Codec{}.Loop(streamed, wire.LoopOptions{Own: wiretest.OwnTools()})
		l.Feed([]byte(reply))
		_, round := l.Close()
		if !strings.Contains(string(round.Element), `"signature":"c2ln/+="`) || len(round.Own) != 1 {
			t.Errorf("streamed %v: %s", streamed, round.Element)
		}
	}
}

// A reply that breaks off says so, and is never taken for a whole one.
func TestP61_BrokenRepliesAreTold(t *testing.T) {
	for _, codec := range loopers() {
		events := spoken(codec)
		if _, round := fed(codec, events...); round.Cut {
			t.Errorf("%T: a whole reply counts as cut", codec)
		}
		if _, round := fed(codec, events[:2]...); !round.Cut {
			t.Errorf("%T: a reply without its end counts as whole", codec)
		}
	}
}

// Where the client's tools were called, the reply ends as one that calls tools.
func TestC7_FinishSaysTools(t *testing.T) {
	mixed := chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"o1","type":"function","function":{"name":"hf_status","arguments":"{}"}},{"index":1,"id":"t1","type":"function","function":{"name":"bash","arguments":"{}"}}]}`, "null") +
		chunk(`{}`, `"tool_calls"`) + chunkUsage + chunkDone
	l := listen(openai.Codec{})
	out := string(l.Feed([]byte(mixed)))
	held, round := l.Close()
	out += string(held) + string(l.Finish())
	if round.Client != 1 || len(round.Own) != 1 || !strings.Contains(out, `"finish_reason":"tool_calls"`) || strings.Contains(out, `"o1"`) {
		t.Errorf("%d and %d calls; the client reads %s", round.Client, len(round.Own), out)
	}
}

// Arguments of the client's tools are never looked into, whatever they hold.
func TestC14_C15_ArgumentsAreLeftAlone(t *testing.T) {
	for _, args := range []string{`{"text":"[fold b3 · m00001–m00009]"}`, `{"cmd":"echo hf_status m00012"}`, `not json <tag>`} {
		q, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		events := []string{
			chunk(fmt.Sprintf(`{"role":"assistant","content":"see m00012","tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"write","arguments":%s}}]}`, q), "null"),
			chunk(`{}`, `"tool_calls"`), chunkUsage, chunkDone}
		if out, _ := fed(openai.Codec{}, events...); out != strings.Join(events, "") {
			t.Errorf("%s: the client reads %s", args, out)
		}
	}
}

// While a reply is held back a streaming client hears something that changes
// nothing; one that waits for a body does not.
func TestP60_PingsKeepAClientWaiting(t *testing.T) {
	for _, codec := range loopers() {
		var heard []string
		s := sse.New(func(ev sse.Event) { heard = append(heard, ev.Name) })
		l := listen(codec)
		ping := l.Ping()
		s.Write(ping)
		if len(ping) == 0 || len(heard) > 1 || len(heard) == 1 && heard[0] != "ping" {
			t.Errorf("%T: %q is heard as %q", codec, ping, heard)
		}
		if whole := codec.Loop(false, wire.LoopOptions{Own: wiretest.OwnTools()}).Ping(); whole != nil {
			t.Errorf("%T: a body begins with %q", codec, whole)
		}
	}
}
