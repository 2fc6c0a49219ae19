package chain

import (
	"holdfast/core/session"
)

// decode turns the elements the plan will store into cores: those that are new
// or replaced, and on a wire switch all of them. The others were recognised by
// the hash of their bytes and stay unread.
func (c *Chain) decode(x *Exchange) error {
	for j := range x.keys {
		if x.messages[j] != nil || x.al.Kept[j] >= 0 && x.al.Row != session.RowWire && x.spelledAsBefore(j) {
			continue
		}
		if err := c.decodeElement(x, j); err != nil {
			return err
		}
	}
	return nil
}

// spelledAsBefore reports whether a kept element has the bytes it had last turn.
func (x *Exchange) spelledAsBefore(j int) bool {
	return x.prior.List[x.al.Kept[j]].Raw == x.raws[j]
}
