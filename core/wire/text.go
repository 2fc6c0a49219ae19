package wire

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// unquote decodes a JSON string, quotes included. Bytes that are not UTF-8 are
// kept, and so is half a surrogate pair (in the three bytes UTF-8 would give
// it): texts that differ must stay different.
func unquote(quoted []byte) (string, bool) {
	if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return "", false
	}
	in := quoted[1 : len(quoted)-1]
	at := bytes.IndexByte(in, '\\')
	if at < 0 {
		return string(in), plainEnd(in, 0) == len(in)
	}
	out := make([]byte, 0, len(in))
	for at >= 0 {
		out = append(out, in[:at]...)
		in = in[at:]
		n := 0
		if out, n = appendEscape(out, in); n == 0 {
			return "", false
		}
		in = in[n:]
		at = bytes.IndexByte(in, '\\')
	}
	return string(append(out, in...)), true
}

// appendEscape decodes the escape at the head of in and says how long it is; 0
// when it is none.
func appendEscape(out, in []byte) ([]byte, int) {
	if len(in) < 2 {
		return out, 0
	}
	switch c := in[1]; c {
	case '"', '\\', '/':
		return append(out, c), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		return appendUnicode(out, in)
	}
	return out, 0
}

func appendUnicode(out, in []byte) ([]byte, int) {
	r, ok := hex4(in[2:])
	if !ok {
		return out, 0
	}
	if !isSurrogate(r) {
		return utf8.AppendRune(out, r), 6
	}
	if low, ok := lowSurrogate(in[6:]); ok && r < 0xDC00 {
		return utf8.AppendRune(out, 0x10000+(r-0xD800)<<10|(low-0xDC00)), 12
	}
	return append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F), 6
}

func isSurrogate(r rune) bool { return 0xD800 <= r && r < 0xE000 }

func lowSurrogate(in []byte) (rune, bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	r, ok := hex4(in[2:])
	return r, ok && 0xDC00 <= r && r < 0xE000
}

const hexDigits = "0123456789abcdef"

// shortEscapes are the control characters that have an escape of one letter,
// at the index of that letter in shortLetters.
const (
	shortEscapes = "\b\f\n\r\t"
	shortLetters = "bfnrt"
)

// appendQuoted writes s as a JSON string in the one canonical way: escapes only
// where JSON demands them, other bytes as they are.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] >= 0x20 && s[n] != '"' && s[n] != '\\' {
			n++
		}
		dst, s = append(dst, s[:n]...), s[n:]
		if len(s) > 0 {
			dst, s = appendSpecial(dst, s)
		}
	}
	return append(dst, '"')
}

// appendSpecial escapes the first byte of s and returns what follows.
func appendSpecial(dst []byte, s string) ([]byte, string) {
	c := s[0]
	if c == '"' || c == '\\' {
		return append(dst, '\\', c), s[1:]
	}
	if at := strings.IndexByte(shortEscapes, c); at >= 0 {
		return append(dst, '\\', shortLetters[at]), s[1:]
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF]), s[1:]
}

// isCanonical reports whether a valid quoted string is surely what appendQuoted
// would write.
func isCanonical(quoted []byte) bool {
	for {
		at := bytes.IndexByte(quoted, '\\')
		if at < 0 {
			return true
		}
		if c := quoted[at+1]; c == 'u' || c == '/' {
			return false
		}
		quoted = quoted[at+2:]
	}
}
