package timeline

// What tests look at.
var (
	Waits  = waits
	Short  = short
	KnobOf = knobOf
)
