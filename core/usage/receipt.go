package usage

// Receipt says what of a local engine's prompt did not have to be computed
// again, and why the rest had to.
type Receipt struct {
	// Promised is what was expected to be reused when the request left; Restored
	// is what the engine's own timings say was.
	Promised Tokens `json:"promised"`
	Restored Tokens `json:"restored"`
	Source   Reused `json:"source"`
	// Ms is what the tier added before the request left, in milliseconds; SavedS
	// the seconds of computing saved, an estimate from this engine's own speed.
	Ms     float64 `json:"ms"`
	SavedS float64 `json:"saved_s"`
	// RestReason says why nothing more was restored; "" where all of it was.
	RestReason string `json:"rest_reason"`
}

// Reused is where the reused part of a prompt came from.
type Reused string

// The sources: the engine's slot held it, it was read from disk, or it was
// computed.
const (
	FromSlot Reused = "slot"
	FromDisk Reused = "disk"
	Computed Reused = "cold"
)
