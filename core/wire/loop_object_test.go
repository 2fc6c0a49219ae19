package wire

import "testing"

func TestGrowing(t *testing.T) {
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"nothing":              {nil, `{}`},
		"texts are joined":     {[]string{`{"a":"x"}`, `{"b":"1","a":"\n"}`, `{"a":"y"}`}, `{"a":"x\ny","b":"1"}`},
		"lists are extended":   {[]string{`{"a":[]}`, `{"a":[1]}`, `{"a":[[2],{"b":3}]}`}, `{"a":[1,[2],{"b":3}]}`},
		"others are replaced":  {[]string{`{"a":1,"b":{"c":2}}`, `{"a":10,"b":{}}`}, `{"a":10,"b":{}}`},
		"null says nothing":    {[]string{`{"a":null,"b":"x"}`, `{"b":null}`}, `{"b":"x"}`},
		"another type":         {[]string{`{"a":"x"}`, `{"a":["y"]}`}, `{"a":["y"]}`},
		"a character in parts": {[]string{`{"a":"\ud83d"}`}, `{"a":"` + "\uFFFD" + `"}`},
	} {
		var g Growing
		for _, p := range c.pieces {
			g.GrowAll(ValueOf([]byte(p)).Obj())
		}
		if got := string(g.Bytes()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestObjectChanges(t *testing.T) {
	raw := []byte(` { "a" : 1,"b":{"c": 2} } `)
	o := ValueOf(raw).Obj()
	inner := o.Get("b").Obj()
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"in place":        {o.Set("a", []byte("9")), `{ "a" : 9,"b":{"c": 2} }`},
		"added":           {o.Set("d", []byte("9")), `{ "a" : 1,"b":{"c": 2},"d":9 }`},
		"inside":          {inner.Set("c", []byte("9")), `{"c": 9}`},
		"to nothing":      {ValueOf([]byte("{}")).Obj().Set("c", []byte("9")), `{"c":9}`},
		"without first":   {o.Without("a"), `{ "b":{"c": 2} }`},
		"without last":    {o.Without("b"), `{ "a" : 1 }`},
		"without another": {o.Without("z"), `{ "a" : 1,"b":{"c": 2} }`},
		"edits":           {Apply(raw, o.With("a", []byte("9")), inner.With("d", []byte("8"))), ` { "a" : 9,"b":{"c": 2,"d":8} } `},
		"rewritten": {o.Rewrite(func(name string, v Value) []byte {
			if name == "a" {
				return nil
			}
			return []byte("7")
		}), `{"b":7}`},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}
