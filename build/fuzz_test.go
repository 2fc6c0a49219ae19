package main

import (
	"slices"
	"strings"
	"testing"
)

func TestFuzzTargets(t *testing.T) {
	listed := `{"Action":"start","Package":"holdfast/a"}
{"Action":"output","Package":"holdfast/a","Output":"FuzzCut\n"}
{"Action":"output","Package":"holdfast/b","Output":"FuzzSplit\n"}
{"Action":"output","Package":"holdfast/b","Output":"ok  \tholdfast/b\t0.01s\n"}
{"Action":"output","Package":"holdfast/c","Output":"?   \tholdfast/c\t[no test files]\n"}
`
	got, err := fuzzTargets(strings.NewReader(listed))
	want := []target{{"holdfast/a", "FuzzCut"}, {"holdfast/b", "FuzzSplit"}}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
	if _, err := fuzzTargets(strings.NewReader("not json")); err == nil {
		t.Error("a broken listing passed")
	}
}
