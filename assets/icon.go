package assets

import "embed"

// The drawn icons, made by build/icons: the tray's in four states for a light
// and a dark bar and as a template for macOS, as PNG and for Windows as ICO.
//
//go:embed icon/*.png icon/*.ico icon/*.svg
var icons embed.FS

// Icon returns one drawn icon by its file name. A name there is not is a
// mistake of the caller, which a test of every name finds.
func Icon(name string) []byte {
	data, err := icons.ReadFile("icon/" + name)
	if err != nil {
		panic("assets: internal error: no icon " + name)
	}
	return data
}
