package engine

// template is ChatML with tools: they stand in the system turn as JSON, calls in
// the assistant's, results in a turn of their own. Earlier reasoning is dropped,
// as most real templates do.
const template = `{%- if tools %}<|im_start|>system
{%- if messages[0]['role'] == 'system' %}
{{ messages[0]['content'] }}
{%- endif %}
Tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Call one with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% elif messages[0]['role'] == 'system' %}<|im_start|>system
{{ messages[0]['content'] }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message['role'] == 'tool' %}<|im_start|>user
<tool_response>
{{ message['content'] }}
</tool_response><|im_end|>
{% elif message['role'] == 'assistant' %}<|im_start|>assistant
{% if message['content'] %}{{ message['content'] }}{% endif %}
{%- for call in message['tool_calls'] or [] %}
<tool_call>
{"name": "{{ call['function']['name'] }}", "arguments": {{ call['function']['arguments'] | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% elif message['role'] != 'system' or not loop.first %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// metadata is the model's header.
func metadata(m Model, v *vocab) []entry {
	a := m.Arch + "."
	entries := []entry{
		{"general.architecture", m.Arch},
		{"general.name", "random-" + m.Name},
		{"general.file_type", uint32(1)}, // mostly f16
		{"general.quantization_version", uint32(2)},
		{a + "context_length", uint32(m.Context)},
		{a + "embedding_length", uint32(m.Width)},
		{a + "block_count", uint32(m.Layers)},
		{a + "vocab_size", uint32(m.Vocab)},
	}
	if m.Arch == "mamba" {
		entries = append(entries, recurrent(m, a)...)
	} else {
		entries = append(entries, attending(m, a)...)
	}
	return append(entries,
		entry{"tokenizer.ggml.model", "gpt2"},
		entry{"tokenizer.ggml.pre", "gpt-2"},
		entry{"tokenizer.ggml.tokens", v.tokens},
		entry{"tokenizer.ggml.token_type", v.types},
		entry{"tokenizer.ggml.merges", v.merges},
		entry{"tokenizer.ggml.bos_token_id", uint32(v.id["<|begin|>"])},
		entry{"tokenizer.ggml.eos_token_id", uint32(v.id["<|im_end|>"])},
		entry{"tokenizer.ggml.padding_token_id", uint32(v.id["<|pad|>"])},
		entry{"tokenizer.ggml.add_bos_token", false},
		entry{"tokenizer.chat_template", template},
	)
}

func recurrent(m Model, a string) []entry {
	return []entry{
		{a + "feed_forward_length", uint32(0)},
		{a + "attention.head_count", uint32(0)},
		{a + "ssm.conv_kernel", uint32(4)},
		{a + "ssm.inner_size", uint32(2 * m.Width)},
		{a + "ssm.state_size", uint32(stateSize)},
		{a + "ssm.time_step_rank", uint32(stepRank(m))},
		{a + "attention.layer_norm_rms_epsilon", float32(1e-5)},
	}
}

func attending(m Model, a string) []entry {
	head := m.Width / m.Heads
	entries := []entry{
		{a + "feed_forward_length", uint32(m.Inner)},
		{a + "attention.head_count", uint32(m.Heads)},
		{a + "rope.dimension_count", uint32(head)},
		{a + "rope.freq_base", m.RopeBase},
	}
	rms := entry{a + "attention.layer_norm_rms_epsilon", float32(1e-5)}
	kvHeads := entry{a + "attention.head_count_kv", uint32(m.KVHeads)}
	switch m.Arch {
	case "lfm2":
		perLayer := make([]int32, m.Layers)
		for l := range perLayer {
			if attends(m, l) {
				perLayer[l] = int32(m.KVHeads)
			}
		}
		return append(entries, rms, entry{kvHeads.key, perLayer}, entry{a + "shortconv.l_cache", uint32(convolved)})
	case "cohere2":
		return append(entries, kvHeads, entry{a + "attention.layer_norm_epsilon", float32(1e-5)},
			entry{a + "attention.sliding_window", uint32(m.Window)}, entry{a + "logit_scale", float32(0.25)})
	case "qwen2vl":
		q := int32(head / 8)
		return append(entries, rms, kvHeads, entry{a + "rope.dimension_sections", []int32{2 * q, q, q, 0}})
	}
	return append(entries, rms, kvHeads)
}
