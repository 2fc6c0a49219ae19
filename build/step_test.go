package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestFetch: what fails for a moment is done again, what goes on failing fails.
func TestFetch(t *testing.T) {
	for failures, want := range map[int]int{0: 1, 1: 2, 2: 3, 5: 3} {
		var out strings.Builder
		r, tries := &runner{out: &out, pauses: make([]time.Duration, 2)}, 0
		err := r.fetch(func() error {
			if tries++; tries <= failures {
				return errors.New("no answer")
			}
			return nil
		})
		if tries != want || (err != nil) != (failures >= want) {
			t.Errorf("%d failures: tried %d times, %v", failures, tries, err)
		}
		if said := strings.Count(out.String(), "no answer"); said != tries-1 {
			t.Errorf("%d tries, of which it says:\n%s", tries, &out)
		}
	}
}
