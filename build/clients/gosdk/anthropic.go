package main

import (
	"context"
	"errors"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func runAnthropic(ctx context.Context, baseURL, file, prompt string) (string, error) {
	client := anthropic.NewClient(option.WithAPIKey("sk-ant-dummy"), option.WithBaseURL(baseURL))
	var history []anthropic.MessageParam
	if err := load(file, &history); err != nil {
		return "", err
	}
	history = append(history, anthropic.NewUserMessage(anthropic.NewTextBlock(prompt)))
	for range maxRounds {
		reply, err := streamAnthropic(ctx, client, history)
		if err != nil {
			return "", err
		}
		history = append(history, reply.ToParam())
		results := resultsOf(reply)
		if len(results) == 0 {
			return textOf(reply), save(file, history)
		}
		history = append(history, anthropic.NewUserMessage(results...))
	}
	return "", errors.New("the model never stopped calling tools")
}

func streamAnthropic(ctx context.Context, client anthropic.Client,
	history []anthropic.MessageParam) (*anthropic.Message, error) {
	stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{
		Model:     "stub-model",
		MaxTokens: 4000,
		System:    []anthropic.TextBlockParam{{Text: "You run commands.", CacheControl: anthropic.NewCacheControlEphemeralParam()}},
		Messages:  history,
		Thinking:  anthropic.ThinkingConfigParamOfEnabled(1024),
		Tools: []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: schema()["properties"], Required: []string{"command"},
		}, "bash")},
	})
	reply := new(anthropic.Message)
	for stream.Next() {
		if err := reply.Accumulate(stream.Current()); err != nil {
			return nil, err
		}
	}
	return reply, stream.Err()
}

func resultsOf(reply *anthropic.Message) (out []anthropic.ContentBlockParamUnion) {
	for _, block := range reply.Content {
		if call, ok := block.AsAny().(anthropic.ToolUseBlock); ok {
			out = append(out, anthropic.NewToolResultBlock(call.ID, answer(string(call.Input)), false))
		}
	}
	return out
}

func textOf(reply *anthropic.Message) string {
	var text strings.Builder
	for _, block := range reply.Content {
		if part, ok := block.AsAny().(anthropic.TextBlock); ok {
			text.WriteString(part.Text)
		}
	}
	return text.String()
}
