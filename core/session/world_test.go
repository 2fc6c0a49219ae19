package session

import (
	"fmt"
	"testing"
)

// TestBucketIsForEver: the place of a session in the rollout must be the same
// in every version, or sessions would change sides.
func TestBucketIsForEver(t *testing.T) {
	for _, c := range []struct {
		salt, raw string
		want      int
	}{
		{"", "", 6438}, // 0xaf1349b9f5f9a1a6, the published digest of nothing
		{"salt", "a", 3657},
		{"salt", "A", 5657},
		{"salt", " a", 7638},
		{"other", "a", 5237},
	} {
		if got := Bucket([]byte(c.salt), c.raw); got != c.want {
			t.Errorf("Bucket(%q, %q) = %d, want %d", c.salt, c.raw, got, c.want)
		}
	}
}

func TestBucketsSpread(t *testing.T) {
	const n = 20_000
	in := 0
	for i := range n {
		b := Bucket([]byte("salt"), fmt.Sprint("session-", i))
		if b < 0 || b >= Buckets {
			t.Fatalf("bucket %d", b)
		}
		if Member(b, 50) {
			in++
		}
	}
	// 50 % of 20,000 has a standard deviation of 71; the input is fixed
	if in < n/2-500 || in > n/2+500 {
		t.Errorf("50 %% took %d of %d", in, n)
	}
}

// TestMember: every hundredth of a percent is one bucket, whatever floats make
// of it.
func TestMember(t *testing.T) {
	for n := range Buckets + 1 {
		percent := float64(n) / 100
		if n > 0 && !Member(n-1, percent) {
			t.Errorf("bucket %d is outside %v %%", n-1, percent)
		}
		if n < Buckets && Member(n, percent) {
			t.Errorf("bucket %d is inside %v %%", n, percent)
		}
	}
	for b := range Buckets {
		if Member(b, 0) || !Member(b, 100) || Member(b, 0.01) != (b == 0) || Member(b, 50) != (b < 5000) {
			t.Fatalf("bucket %d at 0, 0.01, 50 or 100 %%", b)
		}
	}
}

func TestSigned(t *testing.T) {
	if (World{}).Signed() || !(World{Signal: "x-session-affinity"}).Signed() {
		t.Error("a world is signed by its signal")
	}
}
