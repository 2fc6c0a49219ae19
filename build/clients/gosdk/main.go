// Command gosdk is a small tool-calling client on OpenAI's and Anthropic's own
// Go SDKs. It stands in for every program written on them: the tests run it
// straight at the scripted model and through Holdfast and compare.
//
//	gosdk openai|anthropic BASE_URL HISTORY_FILE PROMPT
//
// HISTORY_FILE keeps the conversation between runs: a second run with the same
// file is a resume in a new process. The reply's text goes to standard output.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// maxRounds bounds the tool loop, so that a script that never ends fails.
const maxRounds = 8

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: gosdk openai|anthropic BASE_URL HISTORY_FILE PROMPT")
		os.Exit(2)
	}
	text, err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gosdk:", err)
		os.Exit(1)
	}
	fmt.Println(text)
}

func run(ctx context.Context, sdk, baseURL, file, prompt string) (string, error) {
	switch sdk {
	case "openai":
		return runOpenAI(ctx, baseURL, file, prompt)
	case "anthropic":
		return runAnthropic(ctx, baseURL, file, prompt)
	}
	return "", fmt.Errorf("unknown SDK %q", sdk)
}

// load reads a history; a file that is not there is an empty one.
func load(file string, into any) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func save(file string, history any) error {
	data, err := json.Marshal(history)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// schema is the argument schema of the one tool offered.
func schema() map[string]any {
	return map[string]any{
		"type":       "object",
		"properties": map[string]any{"command": map[string]any{"type": "string"}},
		"required":   []string{"command"},
	}
}

// answer is what the tool returns: its own arguments, so that a changed call
// shows in the next request.
func answer(arguments string) string { return "ran " + arguments }
