package web

// KeyCase is one line of the table of keys: on a page, after some keys, the
// focus is on something, or the browser has gone somewhere.
type KeyCase struct {
	Page  string // an address; {session} and {turn} stand for one of each
	Press string // keys one after the other, Enter and Escape by name
	Focus string // selector the focused element must match, "" for any
	At    string // path the browser must be at, "" for where it was
}

// KeyTable is what the keys do. The browser test plays it.
func KeyTable() []KeyCase {
	const overview, sessions, one, chart, turns, turn = "/ui/", "/ui/sessions", "/ui/sessions/{session}", "/ui/sessions/{session}/map", "/ui/sessions/{session}/turns", "/ui/turns/{turn}"
	return []KeyCase{
		{Page: overview, Press: "?", Focus: "#keys button"},
		{Page: overview, Press: "? Escape", Focus: "body"},
		{Page: overview, Press: "/", Focus: "#jump"},
		{Page: overview, Press: "/ Escape", Focus: "body"},
		{Page: overview, Press: "j", Focus: ".row-title"},
		{Page: overview, Press: "g s", At: "/ui/sessions"},
		{Page: sessions, Press: "g o", At: "/ui/"},
		{Page: sessions, Press: "/", Focus: "main input[name=q]"},
		{Page: sessions, Press: "j", Focus: "tbody tr:nth-child(1) a"},
		{Page: sessions, Press: "j j", Focus: "tbody tr:nth-child(2) a"},
		{Page: sessions, Press: "j j k", Focus: "tbody tr:nth-child(1) a"},
		{Page: sessions, Press: "j Enter", At: "/ui/sessions/"},
		{Page: sessions, Press: "]", At: "/ui/sessions"},
		{Page: one, Press: "j", Focus: ".talk summary"},
		{Page: one, Press: "2", At: chart},
		{Page: one, Press: "3", At: turns},
		{Page: one, Press: "/", Focus: "main input[name=at]"},
		{Page: chart, Press: "j", Focus: ".strip a[data-row]"},
		{Page: chart, Press: "t", Focus: "#map-table summary"},
		{Page: chart, Press: "1", At: one},
		{Page: turns, Press: "j", Focus: "tbody tr:nth-child(1) a"},
		{Page: turns, Press: "j Enter", At: "/ui/turns/"},
		{Page: turn, Press: "i", At: turn},
		{Page: turn, Press: "c", Focus: "[data-copy='#curl']"},
		{Page: turn, Press: "i d", At: turn},
		{Page: turn, Press: "g d", At: "/ui/degrades"},
		{Page: "/ui/degrades", Press: "j", Focus: "tbody tr:nth-child(1) summary"},
		{Page: "/ui/degrades", Press: "g c", At: "/ui/cache"},
		{Page: "/ui/cache", Press: "j", Focus: "tbody tr a"},
		{Page: "/ui/cache", Press: "g t", At: "/ui/settings"},
		{Page: "/ui/settings", Press: "j", Focus: ".field input, .field select"},
		{Page: "/ui/settings", Press: "g n", At: "/ui/connect"},
		{Page: "/ui/connect", Press: "j", Focus: ".agent"},
		{Page: "/ui/connect", Press: "j Enter", At: "/ui/connect"},
		{Page: "/ui/connect", Press: "g h", At: "/ui/help"},
		{Page: "/ui/help", Press: "j j", Focus: ".settings-nav li:nth-child(2) a"},
		{Page: "/ui/help", Press: "?", Focus: "#keys button"},
	}
}
