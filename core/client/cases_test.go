package client

import "testing"

// P44: what was written into a client's own file is taken out again, from the
// files alone: also after a crash, also twice.
func TestP44_UndoNeedsNothingButTheFiles(t *testing.T) {
	for id, cases := range files() {
		a, _ := Find(id)
		c := a.Config()
		for name, text := range cases {
			wrote, err := c.Connect([]byte(text), base)
			if err != nil {
				t.Errorf("%s %s: %v", id, name, err)
				continue
			}
			undone, err := c.Disconnect(wrote, []byte(text), wrote)
			if err != nil || c.Connected(undone, base) {
				t.Errorf("%s %s: %v\n%s", id, name, err, undone)
			}
			again, err := c.Disconnect(undone, []byte(text), wrote)
			if err != nil || string(again) != string(undone) {
				t.Errorf("%s %s, a second time: %v\n%s", id, name, err, again)
			}
		}
	}
}
