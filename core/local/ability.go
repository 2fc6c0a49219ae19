package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"holdfast/core/content"
	"holdfast/core/engine"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
)

// Verdict says what restored states of an engine are good for.
type Verdict string

// The verdicts. Exact extension: a restored state may be continued, but going
// back inside it reuses nothing.
const (
	Proven         Verdict = "proven"
	ExactExtension Verdict = "exact extension only"
	Unusable       Verdict = "unusable"
)

// Ability is what was found out about an engine with one model and one set of
// flags, by saving, restoring, going on and going back.
type Ability struct {
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"`
	Memory  string  `json:"memory,omitempty"`
	Streams int     `json:"streams"`
	// Warning is a flag the engine should be started with, "" for none.
	Warning string `json:"warning,omitempty"`
	// Of an attached engine, whose flags nobody tells: the types its states show,
	// and a digest of what it computed for a fixed prompt.
	CacheK      string    `json:"cache_k,omitempty"`
	CacheV      string    `json:"cache_v,omitempty"`
	Flash       kv.Switch `json:"flash,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
}

// Findings remembers abilities in a file, by build, model and flags.
type Findings struct {
	file  string
	mu    sync.Mutex
	known map[string]Ability
}

// OpenFindings reads what is remembered; a file that cannot be read is empty.
func OpenFindings(file string) *Findings {
	f := &Findings{file: file, known: map[string]Ability{}}
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &f.known) != nil {
		f.known = map[string]Ability{}
	}
	return f
}

func (f *Findings) get(key string) (a Ability, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok = f.known[key]
	return a, ok
}

func (f *Findings) put(key string, a Ability) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[key] = a
	data, err := json.MarshalIndent(f.known, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.file+".new", data, 0o600); err != nil {
		return fmt.Errorf("local: remembering what an engine can do: %w", err)
	}
	return os.Rename(f.file+".new", f.file)
}

// The probe's prompt, its extension and where it goes back to, in tokens: far, and
// so near that an engine with a sliding window believes to have all rows.
const (
	probeTokens   = 600
	probeBack     = 500
	probeNear     = probeTokens - 12
	probeFurther  = 24
	probeReply    = 8
	probeIdentify = 64
)

// able tells what the engine can do: remembered where build, model and flags are
// known, else tried out in one slot while requests use the others.
func (e *Engine) able(ctx context.Context, l *life) (Ability, error) {
	key := func(flags string) string { return l.props.Build + " " + l.model.String() + " " + flags }
	if e.o.Settings != nil {
		s := e.o.Settings.Normal()
		s.Command, s.Model = "", "" // the build and the model are in the key
		flags := key(fmt.Sprintf("%+v", s))
		if a, ok := e.o.Findings.get(flags); ok {
			return a, nil
		}
		return e.tried(ctx, l, flags, Ability{})
	}
	seen, err := e.look(ctx, l)
	if err != nil {
		return Ability{}, err
	}
	flags := key(fmt.Sprintf("attached %d %s", l.props.TotalSlots, seen.Fingerprint))
	if a, ok := e.o.Findings.get(flags); ok {
		return a, nil
	}
	return e.tried(ctx, l, flags, seen)
}

// tried tries the engine out and remembers what came of it.
func (e *Engine) tried(ctx context.Context, l *life, key string, seen Ability) (Ability, error) {
	l.answerable()
	p, done, err := e.probe(ctx, l)
	if err != nil {
		return Ability{}, err
	}
	defer done()
	found, err := p.run(ctx)
	if err != nil {
		return Ability{}, err
	}
	found.CacheK, found.CacheV, found.Flash, found.Fingerprint = seen.CacheK, seen.CacheV, seen.Flash, seen.Fingerprint
	return found, e.o.Findings.put(key, found)
}

// look has an attached engine compute one block of a fixed prompt.
func (e *Engine) look(ctx context.Context, l *life) (Ability, error) {
	p, done, err := e.probe(ctx, l)
	if err != nil {
		return Ability{}, err
	}
	defer done()
	name, f, err := p.save(ctx, p.tokens[:probeIdentify+1])
	if err != nil {
		return Ability{}, err
	}
	defer os.Remove(name)
	return describe(name, f)
}

// probe is one trial in a slot of its own.
type probe struct {
	client   *engine.Client
	slot     int
	slots    int // the engine has
	handover string
	tokens   []kv.Token // probeTokens, then probeFurther, then as many others
}

func (e *Engine) probe(ctx context.Context, l *life) (p *probe, done func(), err error) {
	sl, err := l.slots.take(ctx, func(all []*slot, _ bool) choice { return choice{slot: oldest(all)} })
	if err != nil {
		return nil, nil, err
	}
	done = func() {
		l.slots.change(sl, (*slot).forget)
		l.slots.give(sl)
	}
	tokens, err := probeText(ctx, l.client)
	if err != nil {
		done()
		return nil, nil, err
	}
	return &probe{l.client, sl.id, len(l.slots.list), e.o.Handover, tokens}, done, nil
}

// probeText is a prompt of plain words, the same for every engine of a model.
func probeText(ctx context.Context, c *engine.Client) ([]kv.Token, error) {
	var text strings.Builder
	for i := range 400 {
		fmt.Fprintf(&text, "%d boats leave the harbour and %d come back. ", i*7%91, i*5%37)
	}
	tokens, err := c.Tokenize(ctx, text.String())
	if err == nil && len(tokens) < probeTokens+2*probeFurther {
		err = fmt.Errorf("local: the engine makes %d tokens of %d bytes", len(tokens), text.Len())
	}
	return tokens, err
}

// save computes a prompt from nothing, saves the slot and parses the file.
func (p *probe) save(ctx context.Context, prompt []kv.Token) (path string, f *slotfile.File, err error) {
	if err := p.client.Erase(ctx, p.slot); err != nil {
		return "", nil, err
	}
	if _, err := p.client.Complete(ctx, p.slot, prompt, 1); err != nil {
		return "", nil, err
	}
	path, saved, err := save(ctx, p.client, p.handover, p.slot)
	if err != nil {
		return "", nil, err
	}
	f, err = parse(path, saved)
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(path))
	}
	return path, f, nil
}

// save has the engine write a slot to a fresh file. What the engine says and
// what is there must agree.
func save(ctx context.Context, c *engine.Client, handover string, slot int) (path string, s engine.Saved, err error) {
	name := rand.Text() + ".slot"
	path = filepath.Join(handover, name)
	s, err = c.Save(ctx, slot, name)
	if err != nil {
		os.Remove(path) // what there is of it; nothing after most failures
		return "", s, err
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", s, &engine.Error{Op: "save", What: "the file is not in the slot folder", Err: err,
			Hint: "Set slot_dir of the route to the engine's own --slot-save-path."}
	case err != nil:
		return "", s, err
	case st.Size() != int64(s.Bytes):
		return "", s, errors.Join(fmt.Errorf("local: the engine wrote %d bytes and says %d", st.Size(), s.Bytes), os.Remove(path))
	}
	return path, s, nil
}

// parse reads a slot file's headers.
func parse(path string, s engine.Saved) (*slotfile.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := slotfile.Parse(file, int64(s.Bytes))
	if errors.Is(err, kv.ErrGeometry) {
		f, err = slotfile.ParseOpaque(file, int64(s.Bytes))
	}
	if err == nil && kv.Tokens(len(f.Tokens)) != s.Tokens {
		err = fmt.Errorf("local: the engine saved %d tokens and says %d", len(f.Tokens), s.Tokens)
	}
	return f, err
}

// describe reads an engine's flags from a state it wrote.
func describe(path string, f *slotfile.File) (Ability, error) {
	a := Ability{Streams: streams(f), Flash: kv.On}
	runs := f.Layout.Runs
	if len(runs) > 0 {
		a.CacheK, a.CacheV = typeName(runs[0].Type), typeName(runs[len(runs)-1].Type)
		if runs[len(runs)-1].Elem > 0 {
			a.Flash = kv.Off
		}
	}
	rows, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	sum := content.Of(rows)
	if len(f.Geometry.Regions) > 0 { // the cells name the slot, which varies
		var kept []byte
		for _, r := range f.Geometry.Regions {
			if r.Kind == kv.RegionRows {
				kept = append(kept, rows[r.Offset:r.Offset+r.Size]...)
			}
		}
		sum = content.Of(kept)
	}
	a.Fingerprint = sum.String()[:32]
	return a, nil
}

// streams is the number of sequence streams in the engine's files; a purely
// recurrent state has none, and fits any number.
func streams(f *slotfile.File) int { return max(int(f.Streams), 1) }

// typeName is the engine's name for a row type.
func typeName(t int32) string {
	names := map[int32]string{0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl", 30: "bf16"}
	if n, ok := names[t]; ok {
		return n
	}
	return fmt.Sprintf("type %d", t)
}

// run is the trial: save, restore and go on; restore and go back. Both must
// answer as the engine does without a restore.
func (p *probe) run(ctx context.Context) (a Ability, err error) {
	path, f, err := p.save(ctx, p.tokens[:probeTokens])
	if refusedFormat(err) {
		return Ability{Verdict: Unusable, Why: err.Error()}, nil
	}
	if err != nil {
		return a, err
	}
	defer os.Remove(path)
	a.Memory, a.Streams = f.Layout.Memory.String(), streams(f)
	if a.Warning, err = p.neighbours(ctx, a.Streams); err != nil {
		return a, err
	}
	if why, err := p.onward(ctx, path); why != "" || err != nil {
		return unusable(a, why), err
	}
	back, want, err := p.backward(ctx, path)
	if err != nil {
		return a, err
	}
	switch {
	case back.Content != want.Content && back.Timings.Cached > 0:
		return unusable(a, wrongBack), nil
	case back.Timings.Cached < kv.BlockTokens:
		a.Verdict, a.Why = ExactExtension, "going back inside a restored state reuses nothing"
	default:
		a.Verdict = Proven
	}
	return a, nil
}

// wrongBack is why an engine is of no use that reuses rows it does not have.
const wrongBack = "going back inside a restored state answers differently; start the engine without --swa-full"

// onward goes on from the slot as it is and from the restored state, and a few
// tokens back from both: why is where that differs. Both rewind to the same token
// and compute the rest in the same batches, so that rounding is no difference.
func (p *probe) onward(ctx context.Context, path string) (why string, err error) {
	further := p.tokens[:probeTokens+probeFurther]
	near := p.other(probeNear)
	var want, got [2]engine.Completion
	for i, prompt := range [][]kv.Token{further, near} {
		if want[i], err = p.client.Complete(ctx, p.slot, prompt, probeReply); err != nil {
			return "", err
		}
	}
	for i, prompt := range [][]kv.Token{further, near} {
		if got[i], err = p.restored(ctx, path, prompt); err != nil {
			return "", err
		}
	}
	switch {
	case got[0].Timings.Cached < probeTokens-1:
		return fmt.Sprintf("after a restore of %d tokens it reused %d", probeTokens, got[0].Timings.Cached), nil
	case got[0].Content != want[0].Content:
		return "a restored state goes on differently", nil
	case got[1].Content != want[1].Content && got[1].Timings.Cached == want[1].Timings.Cached:
		return wrongBack, nil
	}
	return "", nil
}

// backward goes far back from the restored state, and computes the same prompt
// from nothing.
func (p *probe) backward(ctx context.Context, path string) (back, want engine.Completion, err error) {
	other := p.other(probeBack)
	if back, err = p.restored(ctx, path, other); err != nil {
		return back, want, err
	}
	if err := p.client.Erase(ctx, p.slot); err != nil {
		return back, want, err
	}
	want, err = p.client.Complete(ctx, p.slot, other, probeReply)
	return back, want, err
}

// other is the probe's prompt up to a token, and something else from there.
func (p *probe) other(at int) []kv.Token {
	return append(append([]kv.Token{}, p.tokens[:at]...), p.tokens[probeTokens+probeFurther:probeTokens+2*probeFurther]...)
}

// neighbours finds out whether a request in another slot empties this one, as
// engines with one pool and a RAM cache do: then only what is saved at once is
// ever saved.
func (p *probe) neighbours(ctx context.Context, streams int) (warning string, err error) {
	if streams > 1 || p.slots < 2 {
		return "", nil
	}
	if _, err := p.client.Complete(ctx, (p.slot+1)%p.slots, p.tokens[:8], 1); err != nil {
		return "", err
	}
	path, _, err := save(ctx, p.client, p.handover, p.slot)
	if engine.Empty(err) {
		return "each new request empties the other slots of this engine; start it with -no-kvu, or with --cache-ram 0", nil
	}
	if err != nil {
		return "", err
	}
	return "", os.Remove(path)
}

func unusable(a Ability, why string) Ability {
	a.Verdict, a.Why = Unusable, why
	return a
}

// refusedFormat says that the engine writes states we do not read.
func refusedFormat(err error) bool {
	return errors.Is(err, slotfile.ErrFormat) || errors.Is(err, slotfile.ErrVersion)
}

// restored restores the saved state and runs a prompt on it. The file is the
// engine's own, written a moment ago.
func (p *probe) restored(ctx context.Context, path string, prompt []kv.Token) (engine.Completion, error) {
	if err := p.client.Erase(ctx, p.slot); err != nil {
		return engine.Completion{}, err
	}
	if _, err := p.client.Restore(ctx, p.slot, filepath.Base(path)); err != nil {
		return engine.Completion{}, err
	}
	return p.client.Complete(ctx, p.slot, prompt, probeReply)
}
