package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// The Model Context Protocol over standard input and output: one JSON-RPC
// message per line. Tools only read, over the API of the running Holdfast.
const mcpVersion = "2025-06-18"

// JSON-RPC error codes.
const (
	rpcParse   = -32700
	rpcMethod  = -32601
	rpcInvalid = -32602
)

func (c *cli) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mcp", Short: "Offer status, sessions and turns to an agent as MCP tools, reading only", Args: cobra.NoArgs,
		Long: "Speaks the Model Context Protocol on standard input and output. Register it with an agent as the\n" +
			"command `holdfast mcp`. It changes nothing and needs a running Holdfast.",
	}
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		b, err := c.running(ctx)
		return with(b, err, func(b *backend) error { return b.mcp(ctx, c.in, c.out) })
	})
	return cmd
}

type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	} `json:"params"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type rpcReply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// mcpLine bounds one message; the answers are ours and may be longer.
const mcpLine = 1 << 20

// mcp answers messages until the input ends.
func (b *backend) mcp(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mcpLine)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for lines.Scan() && ctx.Err() == nil {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var r rpcRequest
		reply := rpcReply{Version: "2.0", ID: json.RawMessage("null")}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			reply.Error = &rpcError{rpcParse, "this is not a message of the protocol"}
		} else if len(r.ID) == 0 { // a notification wants no answer
			continue
		} else {
			reply.ID = r.ID
			reply.Result, reply.Error = b.mcpAnswer(ctx, r)
		}
		if err := enc.Encode(reply); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (b *backend) mcpAnswer(ctx context.Context, r rpcRequest) (any, *rpcError) {
	switch r.Method {
	case "initialize":
		return map[string]any{"protocolVersion": mcpVersion, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]string{"name": "holdfast", "version": version()}}, nil
	case "ping":
		return map[string]any{}, nil
	case "tools/list":
		var list []any
		for _, t := range mcpTools() {
			list = append(list, t.described())
		}
		return map[string]any{"tools": list}, nil
	case "tools/call":
		return b.mcpCall(ctx, r)
	}
	return nil, &rpcError{rpcMethod, "there is no method " + r.Method}
}

// mcpTool is one question an agent may ask.
type mcpTool struct {
	name, does string
	args       map[string]string // by name, what it is
	needs      []string
	path       func(args map[string]string) string
}

func mcpTools() []mcpTool {
	id := url.PathEscape
	return []mcpTool{
		{"holdfast_status", "Whether Holdfast works, which path serves, what it decided, and what it keeps.", nil, nil,
			func(map[string]string) string { return "/hf/v1/status" }},
		{"holdfast_sessions", "The newest sessions in the ledger, or those that match a query.", map[string]string{"query": "words of the title, host or model"}, nil,
			func(a map[string]string) string { return "/hf/v1/sessions?size=20&q=" + url.QueryEscape(a["query"]) }},
		{"holdfast_rows", "What a session's ledger holds, row by row: role, kind, tool, tokens, live or folded.", map[string]string{"session": "id of a session"}, []string{"session"},
			func(a map[string]string) string { return "/hf/v1/sessions/" + id(a["session"]) + "/rows?size=200" }},
		{"holdfast_turns", "The turns of a session: path, gate, bytes, times and usage.", map[string]string{"session": "id of a session"}, []string{"session"},
			func(a map[string]string) string { return "/hf/v1/sessions/" + id(a["session"]) + "/turns?size=50" }},
		{"holdfast_degrades", "Every recorded step down: when, which gate, why, and what served instead.", nil, nil,
			func(map[string]string) string { return "/hf/v1/degrades" }},
	}
}

func (t mcpTool) described() any {
	properties := map[string]any{}
	for name, what := range t.args {
		properties[name] = map[string]string{"type": "string", "description": what}
	}
	needs := append([]string{}, t.needs...)
	return map[string]any{"name": t.name, "description": t.does, "annotations": map[string]bool{"readOnlyHint": true},
		"inputSchema": map[string]any{"type": "object", "properties": properties, "required": needs}}
}

// mcpCall asks the API; what it refuses is an answer for the model to read.
func (b *backend) mcpCall(ctx context.Context, r rpcRequest) (any, *rpcError) {
	for _, t := range mcpTools() {
		if t.name != r.Params.Name {
			continue
		}
		for _, name := range t.needs {
			if r.Params.Arguments[name] == "" {
				return nil, &rpcError{rpcInvalid, fmt.Sprintf("%s wants %s", t.name, name)}
			}
		}
		data, err := b.call(ctx, http.MethodGet, t.path(r.Params.Arguments), nil)
		if err != nil {
			text := err.Error()
			var f *Fault
			if errors.As(err, &f) {
				text += "; " + f.Hint
			}
			return mcpText(text, true), nil
		}
		return mcpText(string(data), false), nil
	}
	return nil, &rpcError{rpcInvalid, "there is no tool " + r.Params.Name}
}

func mcpText(text string, failed bool) any {
	return map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}, "isError": failed}
}
