package main

import (
	"context"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

func runOpenAI(ctx context.Context, baseURL, file, prompt string) (string, error) {
	client := openai.NewClient(option.WithAPIKey("sk-dummy"), option.WithBaseURL(baseURL))
	var history []openai.ChatCompletionMessageParamUnion
	if err := load(file, &history); err != nil {
		return "", err
	}
	history = append(history, openai.UserMessage(prompt))
	for range maxRounds {
		reply, err := streamOpenAI(ctx, client, history)
		if err != nil {
			return "", err
		}
		history = append(history, reply.ToParam())
		if len(reply.ToolCalls) == 0 {
			return reply.Content, save(file, history)
		}
		for _, call := range reply.ToolCalls {
			history = append(history, openai.ToolMessage(answer(call.Function.Arguments), call.ID))
		}
	}
	return "", errors.New("the model never stopped calling tools")
}

func streamOpenAI(ctx context.Context, client openai.Client,
	history []openai.ChatCompletionMessageParamUnion) (openai.ChatCompletionMessage, error) {
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model:    "stub-model",
		Messages: history,
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "bash", Description: openai.String("Run a command"), Parameters: schema(),
		})},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	if len(acc.Choices) == 0 {
		return openai.ChatCompletionMessage{}, errors.New("a reply without choices")
	}
	return acc.Choices[0].Message, nil
}
