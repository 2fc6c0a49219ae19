// Package engine speaks to a local llama-server, starts and watches one when it
// is ours, and finds out what one can do.
//
// Nothing the engine says about a saved state is trusted for more than it is:
// a save counts when its answer, its size and its parse agree, a restore when
// the engine names the same number of tokens, and what was really reused only
// when the next reply's timings say so. What was measured of the engine, and why
// a file must never reach it unverified, is in package tier.
//
// A managed engine gets a port of its own from the system and a random API key
// in its environment: other users of the machine can neither guess nor use it.
package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdfast/core/kv"
)

// Client calls one llama-server. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// idleTime is shorter than the five seconds after which the engine closes a
// connection that rests: a request that meets the close looks like an engine that
// went away.
const idleTime = 2 * time.Second

// NewClient makes a client of the server at base ("http://host:port"); key is
// its API key, "" for none.
func NewClient(base, key string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), key: key, http: &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: idleTime},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Base is where the server is.
func (c *Client) Base() string { return c.base }

// Error is an answer of the engine that is not the one asked for.
type Error struct {
	Op     string
	Status int // 0 when there was no answer
	What   string
	Hint   string
	Err    error // why there was no answer
}

func (e *Error) Error() string {
	text := "engine: " + e.Op
	if e.Status != 0 {
		text += fmt.Sprintf(": status %d", e.Status)
	}
	if e.What != "" {
		text += ": " + e.What
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Refused reports whether the engine answered and said no, as opposed to not
// answering at all.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500
}

// Gone reports whether the engine did not answer.
func Gone(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == 0
}

// Post sends a request and returns the answer as it comes; header is added.
func (c *Client) Post(ctx context.Context, path string, header http.Header, body []byte) (*http.Response, error) {
	return c.send(ctx, http.MethodPost, path, header, body)
}

func (c *Client) send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	// Not sent: it lets the transport send a request again whose connection was
	// closed at rest. Every call here can be repeated, a chat in its slot as well.
	req.Header["Idempotency-Key"] = nil
	if req.Header.Get("Content-Type") == "" && len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.http.Do(req)
}

// maxAnswer bounds the answers that are read whole; a token list of a long
// prompt is the largest.
const maxAnswer = 256 << 20

// call makes one small call and decodes its answer.
func (c *Client) call(ctx context.Context, op, method, path string, in, out any) error {
	var body []byte
	var err error
	switch v := in.(type) {
	case nil:
	case []byte:
		body = v
	default:
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("engine: %s: %w", op, err)
		}
	}
	resp, err := c.send(ctx, method, path, nil, body)
	if err != nil {
		return &Error{Op: op, Err: err, Hint: "Check that the engine is running at " + c.base + "."}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &Error{Op: op, Err: err}
	}
	if resp.StatusCode != http.StatusOK {
		return &Error{Op: op, Status: resp.StatusCode, What: message(data), Hint: hint(resp.StatusCode)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return &Error{Op: op, Status: resp.StatusCode, What: "an answer that is not the expected JSON", Err: err}
	}
	return nil
}

func message(data []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return string(data[:min(len(data), 200)])
}

func hint(status int) string {
	switch status {
	case http.StatusNotImplemented:
		return "Start the engine with --slot-save-path."
	case http.StatusUnauthorized:
		return "The engine wants an API key that Holdfast does not have."
	}
	return ""
}

// Props are what the engine says about itself.
type Props struct {
	TotalSlots int    `json:"total_slots"`
	ModelPath  string `json:"model_path"`
	Build      string `json:"build_info"`
	Sleeping   bool   `json:"is_sleeping"`
	Template   string `json:"chat_template"`
	Defaults   struct {
		Context kv.Tokens `json:"n_ctx"` // of one slot, resolved
	} `json:"default_generation_settings"`
	Modalities struct {
		Vision bool `json:"vision"`
	} `json:"modalities"`
}

// Healthy asks whether the model is loaded. It wakes nothing and needs no key.
func (c *Client) Healthy(ctx context.Context) error {
	return c.call(ctx, "health", http.MethodGet, "/health", nil, nil)
}

// Props asks what the engine is.
func (c *Client) Props(ctx context.Context) (p Props, err error) {
	return p, c.call(ctx, "props", http.MethodGet, "/props", nil, &p)
}

// Slot is one of the engine's slots.
type Slot struct {
	ID         int       `json:"id"`
	Processing bool      `json:"is_processing"`
	Held       kv.Tokens `json:"n_prompt_tokens"` // tokens in its cache now
}

// Slots lists the slots. It wakes a sleeping engine.
func (c *Client) Slots(ctx context.Context) (s []Slot, err error) {
	return s, c.call(ctx, "slots", http.MethodGet, "/slots", nil, &s)
}

// Adapters lists the LoRA adapters in force.
func (c *Client) Adapters(ctx context.Context) (a []Adapter, err error) {
	return a, c.call(ctx, "lora-adapters", http.MethodGet, "/lora-adapters", nil, &a)
}

// Adapter is a LoRA adapter as the engine names it.
type Adapter struct {
	Path  string  `json:"path"`
	Scale float64 `json:"scale"`
}

// Render turns a whole chat body into the prompt's text. The whole body counts:
// tools and template arguments change the prompt.
func (c *Client) Render(ctx context.Context, body []byte) (string, error) {
	var out struct {
		Prompt string `json:"prompt"`
	}
	return out.Prompt, c.call(ctx, "apply-template", http.MethodPost, "/apply-template", body, &out)
}

// Tokenize turns a rendered prompt into the tokens a slot would hold.
func (c *Client) Tokenize(ctx context.Context, text string) ([]kv.Token, error) {
	in := map[string]any{"content": text, "add_special": true, "parse_special": true}
	var out struct {
		Tokens []kv.Token `json:"tokens"`
	}
	return out.Tokens, c.call(ctx, "tokenize", http.MethodPost, "/tokenize", in, &out)
}

// Saved is the engine's answer to a save.
type Saved struct {
	Tokens  kv.Tokens `json:"n_saved"`
	Bytes   kv.Bytes  `json:"n_written"`
	Timings struct {
		Ms float64 `json:"save_ms"`
	} `json:"timings"`
}

// Took is the engine's own time for it, without the wait for a batch under way.
func (s Saved) Took() time.Duration { return time.Duration(s.Timings.Ms * float64(time.Millisecond)) }

// Restored is the engine's answer to a restore.
type Restored struct {
	Tokens kv.Tokens `json:"n_restored"`
	Bytes  kv.Bytes  `json:"n_read"`
}

// ErrSlot refuses a slot number the engine does not have: it would wrap around
// and hit another one.
var ErrSlot = errors.New("engine: no such slot")

// errEmpty: the engine saved a slot that holds nothing.
var errEmpty = errors.New("nothing was saved")

// Empty reports whether a save failed because the slot was empty.
func Empty(err error) bool { return errors.Is(err, errEmpty) }

// Save writes a slot's state to a file in the hand-over folder. Nothing saved is
// a failure, not an empty success.
func (c *Client) Save(ctx context.Context, slot int, name string) (s Saved, err error) {
	err = c.slot(ctx, "save", slot, map[string]string{"filename": name}, &s)
	if err == nil && s.Tokens == 0 {
		err = &Error{Op: "save", Status: http.StatusOK, What: "the slot was empty", Err: errEmpty,
			Hint: "Start the engine with -no-kvu or --cache-ram 0: otherwise each new request empties the idle slots."}
	}
	return s, err
}

// Restore reads a file of the hand-over folder into a slot. The file must have
// been verified: the engine checks almost nothing and a short one kills it.
func (c *Client) Restore(ctx context.Context, slot int, name string) (r Restored, err error) {
	return r, c.slot(ctx, "restore", slot, map[string]string{"filename": name}, &r)
}

// Erase empties a slot.
func (c *Client) Erase(ctx context.Context, slot int) error {
	return c.slot(ctx, "erase", slot, map[string]string{}, nil)
}

func (c *Client) slot(ctx context.Context, action string, slot int, in, out any) error {
	if slot < 0 {
		return ErrSlot
	}
	return c.call(ctx, action, http.MethodPost, fmt.Sprintf("/slots/%d?action=%s", slot, action), in, out)
}

// Timings are the engine's own account of one reply.
type Timings struct {
	Cached      kv.Tokens `json:"cache_n"`
	Prompt      kv.Tokens `json:"prompt_n"`
	PromptMs    float64   `json:"prompt_ms"`
	Predicted   kv.Tokens `json:"predicted_n"`
	PredictedMs float64   `json:"predicted_ms"`
}

// Completion is a short greedy completion for probes and warm-ups.
type Completion struct {
	Content string  `json:"content"`
	Timings Timings `json:"timings"`
}

// Complete runs tokens through a slot and lets it produce n more, greedily.
func (c *Client) Complete(ctx context.Context, slot int, prompt []kv.Token, n int) (out Completion, err error) {
	in := map[string]any{"prompt": prompt, "id_slot": slot, "n_predict": n, "temperature": 0, "cache_prompt": true}
	return out, c.call(ctx, "completion", http.MethodPost, "/completion", in, &out)
}

// Pass sends a request of somebody else's on as it is, to the same path.
func (c *Client) Pass(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	base, err := url.Parse(c.base)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	out.URL.Scheme, out.URL.Host, out.Host = base.Scheme, base.Host, base.Host
	if c.key != "" {
		out.Header.Set("Authorization", "Bearer "+c.key)
	}
	if err := repeatable(out); err != nil {
		return nil, err
	}
	return c.http.Transport.RoundTrip(out)
}

// repeatable lets the transport send a request once more whose connection turned
// out to be closed: the engine closes some after a streamed reply, and a client
// would see its next request fail.
func repeatable(r *http.Request) error {
	r.Header["Idempotency-Key"] = nil
	if r.Body == nil || r.Body == http.NoBody || r.GetBody != nil {
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("engine: the request could not be read: %w", err)
	}
	if err := r.Body.Close(); err != nil {
		return fmt.Errorf("engine: the request could not be read: %w", err)
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	r.Body, err = r.GetBody()
	r.ContentLength = int64(len(data))
	return err
}
