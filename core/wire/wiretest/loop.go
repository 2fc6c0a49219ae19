package wiretest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/chat"
	"holdfast/core/wire"
)

// OwnTools are the tools that are ours in tests of the tool loop.
func OwnTools() []string { return []string{"hf_compress", "hf_decompress", "hf_search", "hf_status"} }

const note = "Nothing to see."

// Spoken is one upstream reply as a test describes it.
type Spoken struct {
	ID                    string
	Input, Cached, Output int
	// Stop is the wire's own word; empty leaves it to the wire.
	Stop string
	Said []Said
}

// Said is one piece of a reply, Kind is "think", "text", "call" or "raw".
type Said struct {
	Kind string
	// Text is what is thought or said, a call's arguments, or bytes of a stream
	// as they are. A bar in it, or in Name, is where a stream is cut into deltas.
	Text     string
	ID, Name string
}

// Calls counts the calls of our tools and of the client's.
func (s Spoken) Calls() (own, client int) {
	for _, p := range s.Said {
		switch {
		case p.Kind != "call":
		case slices.Contains(OwnTools(), Joined(p.Name)):
			own++
		default:
			client++
		}
	}
	return own, client
}

// Pieces are the deltas of a text, Joined is the whole.
func Pieces(s string) []string { return strings.Split(s, "|") }

// Joined is a text without its bars.
func Joined(s string) string { return strings.ReplaceAll(s, "|", "") }

// Heard is a reply as a client understands it.
type Heard struct {
	Element       []byte
	Stop          string
	Input, Output int
}

// ErrFailed is what a client makes of a reply that was in order until it ended
// with an error of the wire's own form.
var ErrFailed = errors.New("the reply failed")

// Speaker writes and reads the replies of one wire.
type Speaker interface {
	wire.Codec
	wire.Looper
	// Stream and Body are a reply, streamed or not.
	Stream(Spoken) []byte
	Body(Spoken) []byte
	// Whole is the message that a reply is to the model, our calls included.
	Whole(Spoken) []byte
	// Hear reads a reply as the strictest client does; ErrFailed is one that
	// ended with an error.
	Hear(stream bool, reply []byte) (Heard, error)
}

// LoopGolden runs testdata/loop/*.txtar of the calling package. In an archive,
// a file is a script and x.want what the client gets, what each round came to
// and what the client then has. With update the latter are written anew.
//
// The first line of a script is "stream" or "body", perhaps with "hide" behind
// it. "reply id input cached output stop" begins a round, "think", "text",
// "call id name arguments" and "raw" are what is said in it, "cut text" is where
// it breaks off, after that text. "say text" and "fail kind text" come after the round before,
// in place of what would be done then; "ping" too, but before it is done.
func LoopGolden(t *testing.T, s Speaker, update bool) {
	t.Helper()
	names, err := filepath.Glob("testdata/loop/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out := &txtar.Archive{Comment: archive.Comment}
		for i, f := range archive.Files {
			if strings.HasSuffix(f.Name, ".want") {
				continue
			}
			var want string
			if i+1 < len(archive.Files) && archive.Files[i+1].Name == f.Name+".want" {
				want = string(archive.Files[i+1].Data)
			}
			got := ""
			t.Run(f.Name, func(t *testing.T) { got = loopGolden(t, s, string(f.Data), want, update) })
			out.Files = append(out.Files, f, txtar.File{Name: f.Name + ".want", Data: []byte(got)})
		}
		if update {
			if err := os.WriteFile(name, txtar.Format(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// loopGolden runs a script with every size of pieces.
func loopGolden(t *testing.T, s Speaker, text, want string, update bool) (got string) {
	t.Helper()
	for i, size := range []int{1 << 20, 1, 7, 64} {
		again := runScript(t, s, text, size)
		if i == 0 {
			got = again
		}
		if again != got {
			t.Errorf("%d bytes at a time:\n%s\nat once:\n%s", size, again, got)
		}
	}
	if !update && got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	return got
}

// loopScript is a script while it runs.
type loopScript struct {
	t      *testing.T
	s      Speaker
	stream bool
	size   int
	loop   wire.Loop
	round  Spoken
	// cut is where the round's reply breaks off.
	cut  string
	open bool
	// out is what the client gets, told what is told beside it.
	out  bytes.Buffer
	told strings.Builder
	last wire.Round
}

func runScript(t *testing.T, s Speaker, text string, size int) string {
	t.Helper()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	options := wire.LoopOptions{Own: OwnTools(), Note: note, HideUsage: strings.HasSuffix(lines[0], " hide")}
	r := &loopScript{t: t, s: s, stream: strings.HasPrefix(lines[0], "stream"), size: size}
	r.loop = s.Loop(r.stream, options)
	for _, line := range lines[1:] {
		word, rest, _ := strings.Cut(line, " ")
		r.line(word, rest)
	}
	r.end()
	if len(r.last.Own) > 0 {
		r.out.Write(r.loop.Finish())
	}
	fmt.Fprintf(&r.told, "client has: %s\n", r.loop.Reply())
	return strings.TrimRight(r.out.String(), "\n") + "\n\n" + r.told.String()
}

func (r *loopScript) line(word, rest string) {
	switch word {
	case "reply":
		r.end()
		if r.last.Info.Terminal {
			r.loop.Next()
		}
		r.begin(strings.Fields(rest))
	case "call":
		f := strings.SplitN(rest, " ", 3)
		r.round.Said = append(r.round.Said, Said{Kind: word, ID: f[0], Name: f[1], Text: f[2]})
	case "cut":
		r.cut = rest
	case "say":
		r.end()
		r.out.Write(r.loop.Say(rest))
	case "ping":
		r.end()
		r.out.Write(r.loop.Ping())
	case "fail":
		r.end()
		kind, message, _ := strings.Cut(rest, " ")
		r.out.Write(r.loop.Fail(kind, message))
		r.last = wire.Round{}
	default:
		r.round.Said = append(r.round.Said, Said{Kind: word, Text: strings.ReplaceAll(rest, `\n`, "\n")})
	}
}

func (r *loopScript) begin(f []string) {
	r.open, r.cut = true, ""
	r.round = Spoken{ID: f[0]}
	r.round.Input, _ = strconv.Atoi(f[1])
	r.round.Cached, _ = strconv.Atoi(f[2])
	r.round.Output, _ = strconv.Atoi(f[3])
	if len(f) > 4 {
		r.round.Stop = f[4]
	}
}

// end feeds the round that was described and tells what it came to.
func (r *loopScript) end() {
	if !r.open {
		return
	}
	r.open = false
	reply := r.s.Body(r.round)
	if r.stream {
		reply = r.s.Stream(r.round)
	}
	if at := bytes.Index(reply, []byte(r.cut)); r.cut != "" {
		reply = reply[:at+len(r.cut)]
	}
	r.last = feed(&r.out, r.loop, reply, func(int) int { return r.size })
	fmt.Fprintf(&r.told, "round: stop %q, %d in, %d cached, %d out", r.last.Info.StopReason, r.last.Info.Counts.Input,
		r.last.Info.Counts.Cached, r.last.Info.Counts.Output)
	if r.last.Cut {
		r.told.WriteString(", cut")
	}
	fmt.Fprintf(&r.told, "\n  client's calls: %d\n", r.last.Client)
	for _, c := range r.last.Own {
		fmt.Fprintf(&r.told, "  ours: %s %s %s\n", c.ID, c.Name, c.Args)
	}
	fmt.Fprintf(&r.told, "  element: %s\n", r.last.Element)
}

// feed gives a loop one reply in pieces and ends the round.
func feed(out *bytes.Buffer, l wire.Loop, reply []byte, next func(left int) int) wire.Round {
	pour(out, l, reply, next)
	rest, round := l.Close()
	out.Write(rest)
	return round
}

func pour(out *bytes.Buffer, l wire.Loop, reply []byte, next func(left int) int) {
	for len(reply) > 0 {
		n := min(next(len(reply)), len(reply))
		piece := bytes.Clone(reply[:n])
		out.Write(l.Feed(piece))
		clear(piece) // the loop may keep nothing of it
		reply = reply[n:]
	}
}

// LoopProgram runs one random reply of several rounds and checks all that a
// client, the model and the books rely on.
func LoopProgram(t *testing.T, s Speaker, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	stream := r.IntN(3) > 0
	p := program{t: t, s: s, r: r, stream: stream, loop: s.Loop(stream, wire.LoopOptions{Own: OwnTools(), Note: note})}
	p.run()
	if t.Failed() {
		t.Fatalf("seed %d, stream %v: %+v", seed, stream, p.rounds)
	}
}

type program struct {
	t      *testing.T
	s      Speaker
	r      *rand.Rand
	stream bool
	loop   wire.Loop
	rounds []Spoken
	sent   []byte
	out    bytes.Buffer
}

func (p *program) run() {
	for {
		spoken := p.reply(len(p.rounds))
		p.rounds = append(p.rounds, spoken)
		reply := p.s.Body(spoken)
		if p.stream {
			reply = p.lineEnds(p.s.Stream(spoken))
		}
		if p.stream && len(p.rounds) > 1 && p.r.IntN(8) == 0 {
			p.cut(reply[:p.r.IntN(len(reply))])
			return
		}
		p.sent = append(p.sent, reply...)
		pour(&p.out, p.loop, reply, func(left int) int { return 1 + p.r.IntN(min(left, 90)) })
		if _, err := p.s.Hear(p.stream, p.out.Bytes()); err == nil && len(p.rounds) > 1 {
			p.t.Errorf("the client has the end before the round is closed")
		}
		rest, round := p.loop.Close()
		p.out.Write(rest)
		p.round(spoken, round)
		own, client := spoken.Calls()
		if own == 0 {
			break
		}
		if client > 0 || len(p.rounds) == 4 {
			p.out.Write(p.loop.Finish())
			break
		}
		p.loop.Next()
	}
	p.client()
}

// cut breaks a later round off: the client can tell, and nothing hangs over.
func (p *program) cut(reply []byte) {
	round := feed(&p.out, p.loop, reply, func(left int) int { return 1 + p.r.IntN(min(left, 90)) })
	if !round.Cut {
		return // it had said how it ends
	}
	p.out.Write(p.loop.Fail("api_error", "cut"))
	if _, err := p.s.Hear(true, p.out.Bytes()); err != ErrFailed {
		p.t.Errorf("cut after %d bytes: %v in\n%s", len(reply), err, p.out.Bytes())
	}
	for _, name := range OwnTools() {
		if bytes.Count(p.out.Bytes(), []byte(`"name":"`+name+`"`)) > p.begun(name) {
			p.t.Errorf("the client sees %s", name)
		}
	}
}

// begun counts the calls of the client's whose longer name came with ours as
// one of its deltas.
func (p *program) begun(name string) (n int) {
	for _, round := range p.rounds {
		for _, said := range round.Said {
			if said.Kind == "call" && !slices.Contains(OwnTools(), Joined(said.Name)) && slices.Contains(Pieces(said.Name), name) {
				n++
			}
		}
	}
	return n
}

// lineEnds writes a stream as other servers would.
func (p *program) lineEnds(stream []byte) []byte {
	switch p.r.IntN(4) {
	case 0:
		return bytes.ReplaceAll(stream, []byte("\n"), []byte("\r\n"))
	case 1:
		return bytes.ReplaceAll(stream, []byte("\n"), []byte("\r"))
	}
	return stream
}

// reply makes up a round.
func (p *program) reply(n int) Spoken {
	s := Spoken{ID: fmt.Sprintf("reply_%d", n), Input: p.r.IntN(1000), Cached: p.r.IntN(1000), Output: 1 + p.r.IntN(500)}
	if p.r.IntN(3) == 0 {
		s.Said = append(s.Said, Said{Kind: "think", Text: p.words()})
	}
	for range p.r.IntN(3) {
		s.Said = append(s.Said, Said{Kind: "text", Text: p.words()})
	}
	names := append(OwnTools(), "Bash", "hf_", "hf_search_all", "h")
	for i := range p.r.IntN(4) {
		name := names[p.r.IntN(len(names))]
		if p.r.IntN(2) == 0 {
			name = names[p.r.IntN(len(OwnTools()))]
		}
		s.Said = append(s.Said, Said{Kind: "call", ID: fmt.Sprintf("c%d_%d", n, i), Name: p.bars(name), Text: p.bars(`{"q":` + string(wire.Quote(Joined(p.words()))) + `}`)})
	}
	if own, client := s.Calls(); own+client > 0 && p.r.IntN(9) == 0 {
		s.Stop = "odd"
	}
	return s
}

func (p *program) words() string {
	return p.bars([]string{"Look, ", "hf_search ", "é😀", " ", "\n", "data: x\n\n", "folded."}[p.r.IntN(7)] + strconv.Itoa(p.r.IntN(100)))
}

// bars cuts a text into deltas.
func (p *program) bars(s string) string {
	var out strings.Builder
	for i, c := range s {
		if i > 0 && p.r.IntN(4) == 0 {
			out.WriteByte('|')
		}
		out.WriteRune(c)
	}
	return out.String()
}

// round checks what the loop tells of one.
func (p *program) round(spoken Spoken, got wire.Round) {
	own, client := spoken.Calls()
	if len(got.Own) != own || got.Client != client || got.Cut || !got.Info.Terminal {
		p.t.Errorf("round %d: %+v", len(p.rounds), got)
	}
	i := 0
	for _, said := range spoken.Said {
		if said.Kind != "call" || !slices.Contains(OwnTools(), Joined(said.Name)) {
			continue
		}
		if i < own && (got.Own[i].ID != said.ID || got.Own[i].Name != Joined(said.Name) || string(got.Own[i].Args) != Joined(said.Text)) {
			p.t.Errorf("call %d: %+v", i, got.Own[i])
		}
		i++
	}
	p.same("element", p.s.Whole(spoken), got.Element)
	if c := got.Info.Counts; int(c.Input) != spoken.Input || int(c.Cached) != spoken.Cached || int(c.Output) != spoken.Output {
		p.t.Errorf("counts %+v", c)
	}
}

// client checks what the client got.
func (p *program) client() {
	last := p.rounds[len(p.rounds)-1]
	own, client := last.Calls()
	if own == 0 && len(p.rounds) == 1 {
		if !bytes.Equal(p.out.Bytes(), p.sent) {
			p.t.Errorf("without a call of ours the client got\n%s\nof\n%s", p.out.Bytes(), p.sent)
		}
		return
	}
	heard, err := p.s.Hear(p.stream, p.out.Bytes())
	if err != nil {
		p.t.Fatalf("%v in\n%s", err, p.out.Bytes())
	}
	p.same("reply", heard.Element, p.loop.Reply())
	output := 0
	for _, s := range p.rounds {
		output += s.Output
	}
	if heard.Input != last.Input+last.Cached || heard.Output != output {
		p.t.Errorf("the client counts %d in, %d out", heard.Input, heard.Output)
	}
	if last.Stop == "" && strings.HasPrefix(heard.Stop, "tool") != (client > 0) || heard.Stop == "" {
		p.t.Errorf("it stops with %q after %d calls", heard.Stop, client)
	}
	m, _ := p.s.Element(heard.Element)
	p.parts(m, client)
}

// parts checks that the client has its calls, none of ours, and something.
func (p *program) parts(m chat.Message, client int) {
	calls, seen := 0, false
	for _, part := range m.Parts {
		switch part.Kind {
		case chat.ToolCall:
			calls++
			if slices.Contains(OwnTools(), part.Tool) {
				p.t.Errorf("the client sees %s", part.Tool)
			}
		case chat.Text:
			seen = seen || strings.TrimSpace(part.Text) != ""
		}
	}
	if calls != client || calls == 0 && !seen {
		p.t.Errorf("the client has %d calls in %+v", calls, m.Parts)
	}
}

// same compares two messages as elements.
func (p *program) same(what string, want, got []byte) {
	if want == nil && got == nil {
		return
	}
	a, errA := p.s.Element(want)
	b, errB := p.s.Element(got)
	if errA != nil || errB != nil || a.Key != b.Key {
		p.t.Errorf("%s is %s, want %s (%v, %v)", what, got, want, errB, errA)
	}
}

// LoopTooLong feeds more than is read: it passes as it came.
func LoopTooLong(t *testing.T, s Speaker) {
	t.Helper()
	long := Said{Kind: "text", Text: strings.Repeat("x", 17<<20)}
	spoken := Spoken{ID: "r1", Output: 1, Said: []Said{long, long, {Kind: "call", ID: "c1", Name: "hf_|search_all", Text: "{}"}}}
	for stream, reply := range map[bool][]byte{true: s.Stream(spoken), false: s.Body(spoken)} {
		var out bytes.Buffer
		feed(&out, s.Loop(stream, wire.LoopOptions{Own: OwnTools(), Note: note}), reply, func(int) int { return 32 << 10 })
		if !bytes.Equal(out.Bytes(), reply) {
			t.Errorf("%d bytes, stream %v, became %d", len(reply), stream, out.Len())
		}
	}
}

// FuzzLoop runs the loop on what fuzzing makes of replies: whatever comes,
// without tools of ours nothing is changed, and later rounds are never broken.
func FuzzLoop(f *testing.F, s Speaker) {
	f.Helper()
	said := []Said{{Kind: "think", Text: "Hm"}, {Kind: "text", Text: "Fo|ld"}, {Kind: "call", ID: "c1", Name: "hf_|search", Text: `{"a":|1}`}}
	both := append(slices.Clone(said), Said{Kind: "call", ID: "c2", Name: "Bash", Text: "{}"})
	for _, stream := range []bool{true, false} {
		write := s.Body
		if stream {
			write = s.Stream
		}
		f.Add(write(Spoken{ID: "r1", Output: 1, Said: said}), write(Spoken{ID: "r2", Output: 2, Said: both}), stream, uint64(1))
	}
	f.Fuzz(func(t *testing.T, one, two []byte, stream bool, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		pieces := func(left int) int { return 1 + r.IntN(min(left, 50)) }
		for _, reply := range [][]byte{one, two} {
			var out bytes.Buffer
			feed(&out, s.Loop(stream, wire.LoopOptions{Note: note}), reply, pieces)
			if !bytes.Equal(out.Bytes(), reply) {
				t.Fatalf("%q became %q", reply, out.Bytes())
			}
		}
		twoRounds(t, s, s.Loop(stream, wire.LoopOptions{Own: OwnTools(), Note: note}), one, two, pieces)
	})
}

// twoRounds goes on after anything, as the chain would not.
func twoRounds(t *testing.T, s Speaker, l wire.Loop, one, two []byte, pieces func(int) int) {
	t.Helper()
	var out bytes.Buffer
	for _, reply := range [][]byte{one, two} {
		round := feed(&out, l, reply, pieces)
		for _, element := range [][]byte{round.Element, l.Reply()} {
			if element != nil && wire.Strict(element) != nil {
				t.Fatalf("no element: %q", element)
			}
		}
		out.Write(l.Say("And."))
		l.Next()
	}
	out.Write(l.Finish())
	out.Write(l.Fail("kind", "message"))
}

// LoopRecorded feeds the response of a golden of the scripted models: without a
// call of ours a reply is what came, in whatever pieces.
func LoopRecorded(t *testing.T, s Speaker, golden string, stream bool) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("../../demo/testdata", golden+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	reply := archive.Files[len(archive.Files)-1].Data
	for size := range 100 {
		var out bytes.Buffer
		l := s.Loop(stream, wire.LoopOptions{Own: OwnTools(), Note: note})
		round := feed(&out, l, reply, func(int) int { return size + 1 })
		if !bytes.Equal(out.Bytes(), reply) || round.Cut {
			t.Errorf("%d bytes at a time: cut is %v\n%s\nof\n%s", size+1, round.Cut, out.Bytes(), reply)
		}
		if _, err := s.Element(round.Element); err != nil || !bytes.Equal(round.Element, l.Reply()) {
			t.Errorf("element %s, reply %s: %v", round.Element, l.Reply(), err)
		}
	}
}
