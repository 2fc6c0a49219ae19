package anthropic

import (
	"testing"

	"holdfast/core/wire/wiretest"
)

func TestRenderGolden(t *testing.T) { wiretest.RenderGolden(t, Codec{}) }
