package fold

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"holdfast/core/usage"
)

// Numbers are element numbers in list order. They are stored as runs
// ([[4,31],[33,33]]), so that a block of hundreds of elements stays a few bytes.
type Numbers []int64

// MarshalJSON writes the runs of consecutive numbers.
func (ns Numbers) MarshalJSON() ([]byte, error) {
	runs := [][2]int64{}
	for _, n := range ns {
		if k := len(runs) - 1; k >= 0 && runs[k][1]+1 == n {
			runs[k][1] = n
			continue
		}
		runs = append(runs, [2]int64{n, n})
	}
	return json.Marshal(runs)
}

// maxRun bounds what a damaged run can make us allocate.
const maxRun = 1 << 20

// UnmarshalJSON reads what MarshalJSON wrote.
func (ns *Numbers) UnmarshalJSON(b []byte) error {
	var runs [][2]int64
	if err := json.Unmarshal(b, &runs); err != nil {
		return err
	}
	*ns = nil
	for _, r := range runs {
		if r[1] < r[0] || r[1]-r[0] > maxRun {
			return fmt.Errorf("fold: %d-%d is no run of elements", r[0], r[1])
		}
		for n := r[0]; n <= r[1]; n++ {
			*ns = append(*ns, n)
		}
	}
	return nil
}

// comma writes a count with thousands separators, as people and models read it.
func comma[N ~int | ~int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return sign + s
}

// EstimateText is the rule of thumb for text: a CJK character is a token, four
// other characters are one.
func EstimateText(s string) usage.Tokens {
	wide, rest := 0, 0
	for _, r := range s {
		if r >= 0x2E80 && r <= 0xFFDC {
			wide++
		} else {
			rest++
		}
	}
	return usage.Tokens(wide + (rest+3)/4)
}

// headOf is the first n runes of s on one line.
func headOf(s string, n int) string {
	s = strings.Join(strings.Fields(s[:min(len(s), 8*n)]), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
