package fold

import (
	"encoding/json"
	"strings"

	"holdfast/core/content"
)

// maxListed is how many elements a stored event spells out. A fold of 2,000 would
// take 150 KB in its checkpoint; runs of their numbers and one sum of their keys
// say as much.
const maxListed = 4

// eventFields is an event without its JSON form.
type eventFields Event

// largeEvent writes elements as runs, which shadow the plain list.
type largeEvent struct {
	eventFields
	Elems Numbers `json:"elems"`
}

// MarshalJSON writes the stored form.
func (e Event) MarshalJSON() ([]byte, error) {
	if len(e.Elems) <= maxListed {
		return json.Marshal(eventFields(e))
	}
	j := largeEvent{eventFields(e), e.Elems}
	if len(e.Keys) > 0 {
		j.Keys, j.KeysSum = nil, SumOfKeys(e.Keys)
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads both forms.
func (e *Event) UnmarshalJSON(text []byte) error {
	var small eventFields
	if json.Unmarshal(text, &small) == nil {
		*e = Event(small)
		return nil
	}
	var large largeEvent
	if err := json.Unmarshal(text, &large); err != nil {
		return err
	}
	*e = Event(large.eventFields)
	e.Elems = large.Elems
	return nil
}

// SumOfKeys is one witness for many element keys.
func SumOfKeys(keys []string) string { return content.Of([]byte(strings.Join(keys, ","))).String() }
