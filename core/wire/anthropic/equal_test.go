package anthropic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"holdfast/core/seed"
)

// speller writes one message in one of its many spellings: what it chooses at
// random must not change the key.
type speller struct{ r *rand.Rand }

func (s speller) one(of ...string) string { return of[s.r.IntN(len(of))] }

// object writes members in any order and spacing, a cache marker among them
// when the object may carry one.
func (s speller) object(marker bool, members ...string) string {
	if marker && s.r.IntN(2) == 0 {
		members = append(members, s.one(`"cache_control":{"type":"ephemeral"}`, `"cache_control" : null`))
	}
	s.r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	gap := s.one("", " ", "\n\t")
	return "{" + gap + strings.Join(members, gap+","+gap) + gap + "}"
}

func (s speller) str(plain string) string {
	return s.one(`"`+plain+`"`, `"`+strings.ReplaceAll(plain, "a", `\u0061`)+`"`, `"`+strings.ReplaceAll(plain, "/", `\/`)+`"`)
}

func (s speller) text(plain string) string {
	return s.object(true, `"type":"text"`, `"text":`+s.str(plain))
}

func (s speller) texts(plain string) string {
	return s.one(s.str(plain), "["+s.text(plain)+"]")
}

func (s speller) thinking() string {
	return s.one("", s.object(false, `"type":"thinking"`, `"thinking":`+s.one(`"hm"`, `""`), `"signature":`+s.one(`"a"`, `"b"`))+",",
		`{"type":"redacted_thinking","data":"x"},`)
}

// message is the n-th message in some spelling.
func (s speller) message(n int) string {
	name := fmt.Sprintf("a/path/%d", n)
	switch n % 3 {
	case 0:
		return s.object(false, `"role":"user"`, `"content":`+s.texts(name))
	case 1:
		input := s.object(false, `"path":`+s.str(name), `"limit":`+s.one("10", "1e1", "10.0"), `"cache_control":`+s.one("1", "1.0"))
		call := s.object(true, `"type":"tool_use"`, `"id":"t"`, `"name":"read"`, `"input":`+input)
		return s.object(false, `"role":"assistant"`, `"content":[`+s.thinking()+s.text("say")+","+call+`]`)
	}
	result := s.object(true, `"type":"tool_result"`, `"tool_use_id":"t"`, `"content":`+s.texts(name))
	doubled := s.one("", ","+s.object(true, `"type":"tool_result"`, `"tool_use_id":"t"`, `"content":`+s.texts(name)))
	return s.object(false, `"role":"user"`, `"content":[`+result+doubled+`]`)
}

func TestKeyDoesNotDependOnSpelling(t *testing.T) {
	s := speller{rand.New(rand.NewPCG(seed.Of(t), 0))}
	owner := map[string]int{}
	for n := range 60 {
		keys := map[string]string{}
		for range 40 {
			raw := s.message(n)
			m, err := Codec{}.Element([]byte(raw))
			if err != nil {
				t.Fatalf("%v: %s", err, raw)
			}
			keys[m.Key.String()] = raw
			if other, ok := owner[m.Key.String()]; ok && other != n {
				t.Fatalf("messages %d and %d have one key: %s", other, n, raw)
			}
			owner[m.Key.String()] = n
		}
		if len(keys) != 1 {
			t.Fatalf("message %d has %d keys: %v", n, len(keys), keys)
		}
	}
}
