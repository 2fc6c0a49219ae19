//go:build !headless

package ui

// watchBar has nothing to tell: a template icon takes the colour of its bar.
func watchBar() (bars <-chan Bar, stop func()) {
	out := make(chan Bar, 1)
	out <- AnyBar
	return out, func() {}
}
