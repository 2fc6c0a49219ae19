package wire

// Pen is what Render needs to know of a family's elements.
type Pen interface{}

// Render renders a view with a family's pen.
func Render(p Pen, b *Body, view []Slot, add Additions) (Outgoing, error) {
	out := Outgoing{Items: make([]Item, 0, len(view))}
	for _, s := range view {
		out.Items = append(out.Items, s.Item)
	}
	return out, nil
}
