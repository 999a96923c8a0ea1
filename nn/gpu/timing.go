package gpu

// Timing is what a device alone takes for positions that are in its memory.
type Timing struct {
	Kernel  string
	Boards  int     // positions that a block of threads takes at a time
	Wave    int     // positions that all multiprocessors take at a time
	Seconds float64 // of one launch
}

// Waves is how many waves n positions are.
func (t Timing) Waves(n int) int { return (n + t.Wave - 1) / t.Wave }
