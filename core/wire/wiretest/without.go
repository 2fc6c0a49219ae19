package wiretest

import (
	"bytes"
	"encoding/json"

	"holdfast/core/wire"
)

// Without is a body less what folding adds to a request that offers tools, cut
// out exactly: one of the tool sets, each as its wire writes it, and the
// paragraph in whatever place it took. A body without the tools is returned as
// it is.
func Without(body []byte, paragraph string, sets ...[]json.RawMessage) []byte {
	for _, set := range sets {
		var tools []byte
		for _, t := range set {
			tools = append(append(tools, ','), t...)
		}
		if rest := bytes.Replace(body, tools, nil, 1); len(rest) != len(body) {
			return unparagraphed(rest, paragraph)
		}
	}
	return body
}

func unparagraphed(body []byte, paragraph string) []byte {
	quoted := string(wire.Quote(paragraph))
	for _, form := range []string{
		`\n\n` + quoted[1:len(quoted)-1],
		`,"system":` + quoted,
		`{"role":"system","content":` + quoted + `},`,
		`,{"type":"text","text":` + quoted + `}`,
	} {
		if rest := bytes.Replace(body, []byte(form), nil, 1); len(rest) != len(body) {
			return rest
		}
	}
	return append([]byte("our paragraph is not in "), body...)
}
