// Package usage counts tokens, bytes and money. Every figure says whether the
// upstream reported it or we estimated it; prices are a dated bundled table.
package usage

// Tokens is a number of model tokens.
type Tokens int64

// Bytes is a number of bytes.
type Bytes int64

// Source says where a figure comes from.
type Source string

// The two sources: an exact report by the upstream, or our own estimate.
const (
	Exact    Source = "exact"
	Estimate Source = "estimate"
)

// Usage is what one model call used. Input excludes Cached and CacheWrite.
type Usage struct {
	Input      Tokens `json:"input"`
	Cached     Tokens `json:"cached"`
	CacheWrite Tokens `json:"cache_write"`
	Output     Tokens `json:"output"`
	Source     Source `json:"source"`
}

// Add returns the class-wise sum; it is exact only if both are.
func (u Usage) Add(v Usage) Usage {
	out := Usage{u.Input + v.Input, u.Cached + v.Cached, u.CacheWrite + v.CacheWrite, u.Output + v.Output, Exact}
	if u.Source == Estimate || v.Source == Estimate {
		out.Source = Estimate
	}
	return out
}

// Total is all input classes together: what the model read.
func (u Usage) Total() Tokens { return u.Input + u.Cached + u.CacheWrite }

// EstimateBytes is the bundled rule of thumb for text without a report: four
// bytes a token, rounded up. Always shown as an estimate.
func EstimateBytes(n int) Tokens { return Tokens((n + 3) / 4) }
