package session

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
)

// rowsNamed makes live rows from words: an element number, "-" behind it when
// the client removed it, ".." for a second row of the same element.
func rowsNamed(words string) (rows []RowIndex) {
	for i, w := range strings.Fields(words) {
		r := RowIndex{Row: int64(i + 1), Pos: int64(i), Removed: strings.HasSuffix(w, "-")}
		for _, d := range strings.TrimSuffix(w, "-") {
			r.Elem = r.Elem*10 + int64(d-'0')
		}
		rows = append(rows, r)
	}
	return rows
}

func listNamed(words string) (list []Elem) {
	for _, r := range rowsNamed(words) {
		list = append(list, Elem{N: r.Elem})
	}
	return list
}

func TestSnapshotView(t *testing.T) {
	for _, c := range []struct{ name, rows, list, want string }{
		{"all kept", "1 2 3", "1 2 3", "1 2 3"},
		{"an element of two rows stands once", "1 2 2 3", "1 2 3", "1 2 3"},
		{"one removed", "1 2- 3", "1 3", "1 2- 3"},
		{"removed, two rows", "1 2- 2- 3", "1 3", "1 2- 3"},
		{"removed at both ends", "1- 2 3-", "2", "1- 2 3-"},
		{"nothing", "", "", ""},
		{"live but not in the list", "1 2 3", "1 3", "error"},
		{"in the list but without a row", "1 3", "1 2 3", "error"},
		{"at the end without a row", "1 2", "1 2 3", "error"},
		{"other order", "1 2", "2 1", "error"},
		{"removed and in the list", "1 2- 3", "1 2 3", "1 2 3"},
	} {
		view, err := SnapshotView(rowsNamed(c.rows), listNamed(c.list))
		var words []string
		for _, v := range view {
			w := string(rune('0' + v.Elem))
			if v.Inbound < 0 {
				w += "-"
			}
			words = append(words, w)
		}
		got := strings.Join(words, " ")
		if errors.Is(err, ErrViewDiffers) {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
}

func TestFullViewIsTheInboundList(t *testing.T) {
	want := []ViewItem{{Inbound: 0, Elem: 4}, {Inbound: 1, Elem: 2}}
	if got := FullView(listNamed("4 2"), nil, fold.NewState()); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestClosed(t *testing.T) {
	call := func(id string, removed bool) RowIndex {
		return RowIndex{Kind: chat.ToolCall, Call: id, Removed: removed}
	}
	result := func(id string, removed bool) RowIndex {
		return RowIndex{Kind: chat.ToolResult, Call: id, Removed: removed}
	}
	text := func(removed bool) RowIndex { return RowIndex{Kind: chat.Text, Removed: removed} }
	for _, c := range []struct {
		name string
		rows []RowIndex
		open bool
	}{
		{"nothing removed", []RowIndex{text(false), call("a", false), result("a", false)}, false},
		{"the client's own list is open", []RowIndex{call("a", false), text(false)}, false},
		{"and text is put back", []RowIndex{call("a", false), text(true), text(false)}, false},
		{"a pair is put back", []RowIndex{call("a", true), result("a", true), text(false)}, false},
		{"a call is put back to its result", []RowIndex{call("a", true), result("a", false)}, false},
		{"a call without result", []RowIndex{call("a", true), text(false)}, true},
		{"a result without call", []RowIndex{text(false), result("a", true)}, true},
		{"a result of another call", []RowIndex{call("b", false), result("a", true), result("b", false)}, true},
		{"the wire has no ids", []RowIndex{call("", true), text(false)}, false},
	} {
		err := Closed(c.rows)
		if (err != nil) != c.open || err != nil && !errors.Is(err, ErrViewOpen) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestViewRuns(t *testing.T) {
	blob := func(v ViewItem) content.ID { return content.ID{byte(v.Elem)} }
	view := func(rows, list string) []ViewItem {
		v, err := SnapshotView(rowsNamed(rows), listNamed(list))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	put := func(n int64) ViewRun { return ViewRun{N: n, Blob: content.ID{byte(n)}} }
	for _, c := range []struct {
		rows, list string
		want       []ViewRun
	}{
		{"1 2 3", "1 2 3", nil},
		{"1 2- 3", "1 3", []ViewRun{{From: 0, To: 1}, put(2), {From: 1, To: 2}}},
		{"1- 2- 3 4 5-", "3 4", []ViewRun{put(1), put(2), {From: 0, To: 2}, put(5)}},
	} {
		v := view(c.rows, c.list)
		if got := ViewRuns(v, len(listNamed(c.list)), blob); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.rows, got, c.want)
		}
	}
}
