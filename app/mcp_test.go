package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestMCP holds a conversation as an agent does.
func TestMCP(t *testing.T) {
	r, _ := runApp(t, "")
	b, err := connect(r.paths, r.Runtime)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}

{"jsonrpc":"2.0","id":"two","method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"holdfast_status","arguments":{}}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"holdfast_rows","arguments":{"session":"../status"}}}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"holdfast_rows"}}
{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"rm"}}
{"jsonrpc":"2.0","id":7,"method":"prompts/list"}
{"jsonrpc":"2.0","id":8,"method":"ping"}
not json
`
	if err := b.mcp(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := []string{`"protocolVersion":"2025-06-18"`, `"holdfast_sessions"`, `\"rollout\"`, `"isError":true`, `wants session`, `there is no tool rm`,
		`"code":-32601`, `"id":8,"result":{}`, `"code":-32700`}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d answers:\n%s", len(lines), out.String())
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) || !json.Valid([]byte(line)) {
			t.Errorf("answer %d lacks %s: %s", i, want[i], line)
		}
	}
}
