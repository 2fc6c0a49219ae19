package layout

import "strings"

// current is the value of aria-current.
func current(yes bool) string {
	if yes {
		return "page"
	}
	return "false"
}

// nextTheme is what the button changes to.
func nextTheme(now string) string {
	switch now {
	case "":
		return "light"
	case "light":
		return "dark"
	}
	return "system"
}

// presses are the single keys of one line of the list of keys.
func presses(s string) []string { return strings.Fields(s) }

// iconPaths are the strokes of an icon on a grid of 20.
func iconPaths(name string) []string {
	return map[string][]string{
		"overview":     {"M3 11.500l3.500-4 3 3L17 4", "M13 4h4v4", "M3 16.500h14"},
		"sessions":     {"M3.500 5h13M3.500 10h13M3.500 15h8"},
		"degrades":     {"M10 3.500l7.500 13h-15z", "M10 8.500v3.500M10 14.300v.2"},
		"cache":        {"M3.500 5.500c0-3 13-3 13 0s-13 3-13 0v9c0 3 13 3 13 0v-9", "M3.500 10c0 3 13 3 13 0"},
		"connect":      {"M7 3.500v4M13 3.500v4M4.500 7.500h11v2a5.500 5.500 0 0 1-11 0z", "M10 15v2.500"},
		"settings":     {"M3 6h8M15 6h2M3 14h2M9 14h8", "M13 4v4M7 12v4"},
		"help":         {"M10 17.500a7.500 7.500 0 1 0 0-15 7.500 7.500 0 0 0 0 15z", "M7.800 8a2.200 2.200 0 1 1 3.400 1.900c-.8.5-1.200.9-1.200 1.800M10 14.200v.1"},
		"search":       {"M9 15a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM13.500 13.500L17 17"},
		"keys":         {"M2.500 5.500h15v9h-15z", "M5.500 8.500h.1M8.500 8.500h.1M11.500 8.500h.1M14.500 8.500h.1M6.500 11.700h7"},
		"theme-system": {"M3 4.500h14v9H3z", "M7.500 16.500h5"},
		"theme-light":  {"M10 13.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7z", "M10 2.500v1.500M10 16v1.500M2.500 10H4M16 10h1.500M4.700 4.700l1 1M14.300 14.300l1 1M15.300 4.700l-1 1M5.700 14.300l-1 1"},
		"theme-dark":   {"M16.500 11.800A7 7 0 0 1 8.200 3.500a7 7 0 1 0 8.300 8.300z"},
	}[name]
}
