package config

import (
	"slices"
	"strings"
)

// nearest returns the valid key closest to an unknown one, "" when nothing is
// near enough to be meant.
func nearest(key string) string {
	best, at := "", len(key)/2+1
	for _, k := range candidates(key) {
		if d := distance(key, k); d < at || d == at && best == "" {
			best, at = k, d
		}
	}
	return best
}

// candidates are all keys, with the name the owner chose kept in place, and
// tables only where no setting is as near.
func candidates(key string) []string {
	parts := strings.Split(key, ".")
	var out []string
	for k := range keys() {
		if strings.Contains(k, "*") {
			if len(parts) < 2 {
				continue
			}
			k = strings.Replace(k, "*", parts[1], 1)
		}
		if k != "" && k != key {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// distance is the number of letters to change, insert, drop or swap.
func distance(a, b string) int {
	before, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			same := prev[j-1]
			if a[i-1] != b[j-1] {
				same++
			}
			cur[j] = min(same, prev[j]+1, cur[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
