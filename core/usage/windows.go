package usage

// DefaultWindow is assumed for a model the table does not know.
const DefaultWindow Tokens = 200_000

// LongWindow is the window of the models that take a million tokens, and what
// the context-1m beta flag of the anthropic wire asks for.
const LongWindow Tokens = 1_000_000

// Window is a model's context window, prompt and output together, from the
// bundled dated table; DefaultWindow where it does not know the model.
func Window(model string) Tokens {
	if w, ok := lookup(windowTable(), model); ok {
		return w
	}
	return DefaultWindow
}

func windowTable() map[string]Tokens {
	const gptLong, gpt5 = 1_050_000, 400_000
	return map[string]Tokens{
		"claude-fable-5-1":  LongWindow,
		"claude-mythos-5-1": LongWindow,
		"claude-fable-5":    LongWindow,
		"claude-mythos-5":   LongWindow,
		"claude-opus-5-5":   LongWindow,
		"claude-opus-5":     LongWindow,
		"claude-opus-4-8":   LongWindow,
		"claude-opus-4-7":   LongWindow,
		"claude-opus-4-6":   LongWindow,
		"claude-sonnet-5-5": LongWindow,
		"claude-sonnet-5":   LongWindow,
		"claude-sonnet-4-6": LongWindow,
		"claude-haiku-5-5":  LongWindow,

		"gpt-6-astra":        gptLong,
		"gpt-6.1-sol":        gptLong,
		"gpt-6-sol":          gptLong,
		"gpt-6-luna":         gptLong,
		"gpt-5.6-sol":        gptLong,
		"gpt-5.6-terra":      gptLong,
		"gpt-5.6-luna":       gptLong,
		"gpt-5.5":            gptLong,
		"gpt-5.4":            gptLong,
		"gpt-5.4-mini":       gpt5,
		"gpt-5.4-nano":       gpt5,
		"gpt-5.3-codex":      gpt5,
		"gpt-5.2":            gpt5,
		"gpt-5.2-codex":      gpt5,
		"gpt-5.1":            gpt5,
		"gpt-5.1-codex":      gpt5,
		"gpt-5.1-codex-max":  gpt5,
		"gpt-5.1-codex-mini": gpt5,
		"gpt-5":              gpt5,
		"gpt-5-codex":        gpt5,
		"gpt-5-mini":         gpt5,
		"gpt-5-nano":         gpt5,
		"gpt-4.1":            1_047_576,
		"gpt-4.1-mini":       1_047_576,
		"gpt-4.1-nano":       1_047_576,
		"gpt-4o":             128_000,
		"gpt-4o-mini":        128_000,
	}
}
