package anthropic

import (
	"testing"

	"holdfast/core/seed"
	"holdfast/core/wire/wiretest"
)

func TestRenderGolden(t *testing.T) { wiretest.RenderGolden(t, Codec{}) }

func TestRenderProperties(t *testing.T) { wiretest.RenderProperties(t, Codec{}, seed.Of(t)) }

func TestUnthink(t *testing.T) {
	const text, thought = `{"type":"text","text":"a \u00e9"}`, `{"type":"thinking","thinking":"?","signature":"c2ln"}`
	const hidden = `{"type":"redacted_thinking","data":"eA=="}`
	message := func(content string) string { return `{"role": "assistant", "content": ` + content + `, "id":1.0}` }
	for content, want := range map[string]string{
		`[` + text + `]`:                  `[` + text + `]`,
		`"a"`:                             `"a"`,
		`[` + thought + `, ` + text + `]`: `[` + text + `]`,
		`[` + text + `,` + thought + `,` + hidden + `]`:      `[` + text + `]`,
		`[` + thought + `,` + text + `,  ` + text + ` ]`:     `[` + text + `,` + text + `]`,
		`[` + thought + `,{"type":"fallback"},` + text + `]`: `[{"type":"fallback"},` + text + `]`,
	} {
		got, ok := Codec{}.Unthink([]byte(message(content)))
		if !ok || string(got) != message(want) {
			t.Errorf("%s: %s, %v, want %s", content, got, ok, message(want))
		}
	}
	if got, ok := (Codec{}).Unthink([]byte(message(`[` + thought + `]`))); ok {
		t.Errorf("nothing is left, and it is %s", got)
	}
}
